/* An XML answer as a tree of elements: local names only (EC2's namespace varies), children in the order they came, text
 * of elements that have no children. Knows nothing of what answers mean.
 *
 * Refused: document types (and with them entities of any kind but XML's own five), more than the limits below, what is
 * not well-formed. Attributes are passed over. Any thread; a tree may be read by several.
 * What is freed is wiped. */
#ifndef AGILEML_CLOUD_XML_TREE_H
#define AGILEML_CLOUD_XML_TREE_H

#include "agileml/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    XML_TREE_DEPTH_MAX = 32,
    XML_TREE_NODES_MAX = 1 << 20,
    XML_TREE_BODY_MAX = 1 << 25, /* bytes of an answer */
    XML_TREE_NAME_MAX = 100,     /* bytes of an element's name with its prefix */
};

struct xml_tree;

/* An element; valid until xml_tree_close. */
struct xml_element {
    const struct xml_tree *xml;
    uint32_t index;
};

/* 0, or AML_EINPUT with what was wrong and in which line. */
int xml_tree_parse(struct xml_tree **xml, const char *body, size_t size, struct error *error);
void xml_tree_close(struct xml_tree *xml); /* NULL is allowed */

/* "No element" is a node with `xml` NULL; it may be asked everything: it has no children and an empty text. */
struct xml_element xml_tree_root(const struct xml_tree *xml);
static inline int xml_element_is(struct xml_element node) {
    return node.xml != NULL;
}
const char *xml_element_name(struct xml_element node);
/* Of an element with children, or an empty one: "". White space around it is left out. */
const char *xml_element_text(struct xml_element node);
/* The first element at a path such as "status/code" below `node`: for each name the first child that has it. */
struct xml_element xml_element_at(struct xml_element node, const char *path);
/* xml_element_text of xml_element_at. */
const char *xml_text_at(struct xml_element node, const char *path);
/* Goes through the children named `name`: *child is "no element" at first. 0 when there are no more. */
int xml_element_next(struct xml_element node, const char *name, struct xml_element *child);
/* Copies the text at `path` into `text` of `size` bytes. 0, or AML_EINPUT when it is missing, empty or too long: then
 * `text` is empty. */
int xml_copy_at(struct xml_element node, const char *path, char *text, size_t size);

#endif
