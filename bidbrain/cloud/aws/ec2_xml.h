/* An XML answer as a tree of elements: local names only (EC2's namespace varies), children in the order they came, text
 * of elements that have no children. Knows nothing of what answers mean.
 *
 * Refused: document types (and with them entities of any kind but XML's own five), more than the limits below, what is
 * not well-formed. Attributes are passed over. Any thread; a tree may be read by several. */
#ifndef BIDBRAIN_CLOUD_AWS_EC2_XML_H
#define BIDBRAIN_CLOUD_AWS_EC2_XML_H

#include "agileml/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    EC2_XML_DEPTH_MAX = 32,
    EC2_XML_NODES_MAX = 1 << 20,
    EC2_XML_BODY_MAX = 1 << 25, /* bytes of an answer */
    EC2_XML_NAME_MAX = 100,     /* bytes of an element's name with its prefix */
};

struct ec2_xml;

/* An element; valid until ec2_xml_close. */
struct ec2_node {
    const struct ec2_xml *xml;
    uint32_t index;
};

/* 0, or AML_EINPUT with what was wrong and in which line. */
int ec2_xml_parse(struct ec2_xml **xml, const char *body, size_t size, struct error *error);
void ec2_xml_close(struct ec2_xml *xml); /* NULL is allowed */

/* "No element" is a node with `xml` NULL; it may be asked everything: it has no children and an empty text. */
struct ec2_node ec2_xml_root(const struct ec2_xml *xml);
static inline int ec2_node_is(struct ec2_node node) {
    return node.xml != NULL;
}
const char *ec2_node_name(struct ec2_node node);
/* Of an element with children, or an empty one: "". White space around it is left out. */
const char *ec2_node_text(struct ec2_node node);
/* The first element at a path such as "status/code" below `node`: for each name the first child that has it. */
struct ec2_node ec2_node_at(struct ec2_node node, const char *path);
/* ec2_node_text of ec2_node_at. */
const char *ec2_text_at(struct ec2_node node, const char *path);
/* Goes through the children named `name`: *child is "no element" at first. 0 when there are no more. */
int ec2_node_next(struct ec2_node node, const char *name, struct ec2_node *child);
/* Copies the text at `path` into `text` of `size` bytes. 0, or AML_EINPUT when it is missing, empty or too long: then
 * `text` is empty. */
int ec2_copy_at(struct ec2_node node, const char *path, char *text, size_t size);

#endif
