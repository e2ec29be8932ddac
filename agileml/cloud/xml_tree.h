/* An XML response as a tree of elements: local names only (EC2's namespace varies), children in their order, and the
 * text of elements without children. Does not interpret responses.
 *
 * Rejects document types (and so all entities but XML's own five), documents above the limits below, and documents
 * that are not well-formed. Ignores attributes. Any thread; several threads may read a tree. Freed memory is wiped. */
#ifndef AGILEML_CLOUD_XML_TREE_H
#define AGILEML_CLOUD_XML_TREE_H

#include "agileml/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    XML_TREE_DEPTH_MAX = 32,
    XML_TREE_NODES_MAX = 1 << 20,
    XML_TREE_BODY_MAX = 1 << 25, /* bytes of a response */
    XML_TREE_NAME_MAX = 100,     /* bytes of an element's name with its prefix */
};

struct xml_tree;

/* An element; valid until xml_tree_close. */
struct xml_element {
    const struct xml_tree *xml;
    uint32_t index;
};

/* Returns 0, or AML_EINPUT with the error and its line. */
int xml_tree_parse(struct xml_tree **xml, const char *body, size_t size, struct error *error);
void xml_tree_close(struct xml_tree *xml); /* NULL is allowed */

/* "No element" is a node with `xml` NULL. All functions accept it: it has no children and an empty text. */
struct xml_element xml_tree_root(const struct xml_tree *xml);
static inline int xml_element_is(struct xml_element node) {
    return node.xml != NULL;
}
const char *xml_element_name(struct xml_element node);
/* Returns the text without white space around it; "" for an element that is empty or has children. */
const char *xml_element_text(struct xml_element node);
/* Returns the first element at a path such as "status/code" below `node`: for each name, the first child that has
 * it. */
struct xml_element xml_element_at(struct xml_element node, const char *path);
/* Returns the xml_element_text of the xml_element_at the path. */
const char *xml_text_at(struct xml_element node, const char *path);
/* Iterates over the children named `name`; *child must be "no element" at first. Returns 0 when there are no more. */
int xml_element_next(struct xml_element node, const char *name, struct xml_element *child);
/* Copies the text at `path` into text[size]. Returns 0; or AML_EINPUT when it is missing, empty or too long, and
 * `text` is empty. */
int xml_copy_at(struct xml_element node, const char *path, char *text, size_t size);

#endif
