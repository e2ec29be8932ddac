/* See xml_tree.h. expat calls back for each element. The tree is two growing arrays: elements, and all their texts. */
#include "agileml/cloud/xml_tree.h"

#include "agileml/base/memory.h"

#include <expat.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Element number 0 is not an element: it is the root's parent, and stands for "none". */
struct xml_node {
    uint32_t name, text; /* offsets in `texts` */
    uint32_t first_child, last_child, next;
};

struct xml_tree {
    struct xml_node *nodes;
    size_t count, capacity;
    char *texts; /* strings, each with a final 0; the first one is empty */
    size_t size, texts_capacity;
};

struct xml_reader {
    XML_Parser parser;
    struct xml_tree *xml;
    uint32_t open[XML_TREE_DEPTH_MAX]; /* the enclosing elements */
    size_t depth;
    size_t text; /* where the text since the last tag begins, after all kept texts */
    const char *refused;
};

/* ---- Memory is wiped before it is freed, as it may hold secrets ---- */

static void xml_free(void *memory) {
    if (memory != NULL) {
        explicit_bzero(memory, malloc_usable_size(memory));
        free(memory);
    }
}

static void *xml_realloc(void *old, size_t size) {
    void *new = malloc(size);
    size_t before = old != NULL ? malloc_usable_size(old) : 0;
    if (new != NULL && old != NULL) {
        memcpy(new, old, before < size ? before : size);
        xml_free(old);
    }
    return new;
}

static const XML_Memory_Handling_Suite xml_memory = {malloc, xml_realloc, xml_free};

/* ---- Reading ---- */

static void xml_tree_add_text(struct xml_tree *xml, const char *text, size_t size) {
    if (xml->size + size > xml->texts_capacity) {
        xml->texts_capacity = (xml->size + size) * 2;
        xml->texts = xml_realloc(xml->texts, xml->texts_capacity);
        if (xml->texts == NULL) {
            memory_exhausted(xml->texts_capacity);
        }
    }
    memcpy(xml->texts + xml->size, text, size);
    xml->size += size;
}

static uint32_t xml_tree_add_node(struct xml_tree *xml) {
    if (xml->count == xml->capacity) {
        xml->capacity = xml->capacity == 0 ? 256 : xml->capacity * 2;
        xml->nodes = memory_resized(xml->nodes, xml->capacity, sizeof *xml->nodes);
    }
    xml->nodes[xml->count] = (struct xml_node){0};
    return (uint32_t)xml->count++;
}

static void xml_tree_refuse(struct xml_reader *reader, const char *why) {
    if (reader->refused == NULL) {
        reader->refused = why;
    }
    XML_StopParser(reader->parser, XML_FALSE);
}

static void xml_tree_doctype(void *context, const XML_Char *name, const XML_Char *system, const XML_Char *public,
                             int internal) {
    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    xml_tree_refuse(context, "it has a document type");
}

static void xml_tree_start(void *context, const XML_Char *name, const XML_Char **attributes) {
    (void)attributes;
    struct xml_reader *reader = context;
    struct xml_tree *xml = reader->xml;
    const char *colon = strrchr(name, ':');
    const char *local = colon == NULL ? name : colon + 1;
    if (reader->refused != NULL) {
        return; /* expat may call once more after XML_StopParser */
    }
    if (reader->depth == XML_TREE_DEPTH_MAX || xml->count > XML_TREE_NODES_MAX || strlen(name) > XML_TREE_NAME_MAX) {
        xml_tree_refuse(reader, reader->depth == XML_TREE_DEPTH_MAX ? "elements too deep"
                                : xml->count > XML_TREE_NODES_MAX   ? "too many elements"
                                                                    : "an element's name is too long");
        return;
    }
    xml->size = reader->text; /* drops the text before a child element: it is only layout */
    uint32_t parent = reader->depth == 0 ? 0 : reader->open[reader->depth - 1];
    uint32_t node = xml_tree_add_node(xml);
    xml->nodes[node].name = (uint32_t)xml->size;
    xml_tree_add_text(xml, local, strlen(local) + 1);
    reader->text = xml->size;
    struct xml_node *of = &xml->nodes[parent];
    *(of->first_child == 0 ? &of->first_child : &xml->nodes[of->last_child].next) = node;
    of->last_child = node;
    reader->open[reader->depth++] = node;
}

static bool xml_tree_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void xml_tree_end(void *context, const XML_Char *name) {
    (void)name;
    struct xml_reader *reader = context;
    struct xml_tree *xml = reader->xml;
    if (reader->refused != NULL) {
        return;
    }
    struct xml_node *node = &xml->nodes[reader->open[--reader->depth]];
    size_t from = reader->text;
    if (node->first_child == 0) {
        while (xml->size > from && xml_tree_space(xml->texts[xml->size - 1])) {
            xml->size--;
        }
        while (from < xml->size && xml_tree_space(xml->texts[from])) {
            from++;
        }
        if (from < xml->size) {
            node->text = (uint32_t)from;
            xml_tree_add_text(xml, "", 1);
            reader->text = xml->size;
        }
    }
    xml->size = reader->text;
}

static void xml_tree_text(void *context, const XML_Char *text, int size) {
    struct xml_reader *reader = context;
    if (reader->refused == NULL) {
        xml_tree_add_text(reader->xml, text, (size_t)size);
    }
}

int xml_tree_parse(struct xml_tree **xml, const char *body, size_t size, struct error *error) {
    *xml = NULL;
    if (size > XML_TREE_BODY_MAX) {
        return error_set(error, AML_EINPUT, "XML of more than %d bytes", XML_TREE_BODY_MAX);
    }
    struct xml_reader reader = {.parser = XML_ParserCreate_MM(NULL, &xml_memory, NULL),
                                .xml = memory_zeroed(1, sizeof **xml)};
    if (reader.parser == NULL) {
        memory_exhausted(sizeof reader);
    }
    (void)xml_tree_add_node(reader.xml);
    xml_tree_add_text(reader.xml, "", 1);
    reader.text = reader.xml->size;
    XML_SetUserData(reader.parser, &reader);
    XML_SetStartDoctypeDeclHandler(reader.parser, xml_tree_doctype);
    XML_SetElementHandler(reader.parser, xml_tree_start, xml_tree_end);
    XML_SetCharacterDataHandler(reader.parser, xml_tree_text);
    int result = 0;
    if (XML_Parse(reader.parser, body, (int)size, XML_TRUE) != XML_STATUS_OK || reader.refused != NULL) {
        const char *why = reader.refused != NULL ? reader.refused : XML_ErrorString(XML_GetErrorCode(reader.parser));
        result = error_set(error, AML_EINPUT, "line %lu of the XML: %s",
                           (unsigned long)XML_GetCurrentLineNumber(reader.parser), why);
    }
    XML_ParserFree(reader.parser);
    if (result != 0) {
        xml_tree_close(reader.xml);
        return result;
    }
    *xml = reader.xml;
    return 0;
}

void xml_tree_close(struct xml_tree *xml) {
    if (xml != NULL) {
        free(xml->nodes);
        xml_free(xml->texts);
        free(xml);
    }
}

static const struct xml_element xml_no_element;

static struct xml_element xml_element_of(const struct xml_tree *xml, uint32_t index) {
    return index == 0 ? xml_no_element : (struct xml_element){xml, index};
}

struct xml_element xml_tree_root(const struct xml_tree *xml) {
    return xml_element_of(xml, xml->nodes[0].first_child);
}

const char *xml_element_name(struct xml_element node) {
    return node.xml == NULL ? "" : node.xml->texts + node.xml->nodes[node.index].name;
}

const char *xml_element_text(struct xml_element node) {
    return node.xml == NULL ? "" : node.xml->texts + node.xml->nodes[node.index].text;
}

/* Returns the first element, among `index` and the siblings after it, whose name is name[length]; 0: none. */
static uint32_t xml_tree_named(const struct xml_tree *xml, uint32_t index, const char *name, size_t length) {
    while (index != 0) {
        const char *own = xml->texts + xml->nodes[index].name;
        if (strncmp(own, name, length) == 0 && own[length] == '\0') {
            return index;
        }
        index = xml->nodes[index].next;
    }
    return 0;
}

struct xml_element xml_element_at(struct xml_element node, const char *path) {
    while (node.xml != NULL && *path != '\0') {
        size_t length = strcspn(path, "/");
        node =
            xml_element_of(node.xml, xml_tree_named(node.xml, node.xml->nodes[node.index].first_child, path, length));
        path += length + (path[length] == '/');
    }
    return node;
}

const char *xml_text_at(struct xml_element node, const char *path) {
    return xml_element_text(xml_element_at(node, path));
}

int xml_element_next(struct xml_element node, const char *name, struct xml_element *child) {
    if (node.xml == NULL) {
        return 0;
    }
    const struct xml_node *nodes = node.xml->nodes;
    uint32_t from = child->xml == NULL ? nodes[node.index].first_child : nodes[child->index].next;
    *child = xml_element_of(node.xml, xml_tree_named(node.xml, from, name, strlen(name)));
    return child->xml != NULL;
}

int xml_copy_at(struct xml_element node, const char *path, char *text, size_t size) {
    const char *found = xml_text_at(node, path);
    size_t length = strlen(found);
    text[0] = '\0';
    if (length == 0 || length >= size) {
        return AML_EINPUT;
    }
    memcpy(text, found, length + 1);
    return 0;
}
