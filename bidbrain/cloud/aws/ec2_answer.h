/* What EC2's answers say, as typed values: read from XML by path (xml_tree.h), whatever the namespace, the order of
 * elements and what else there is. Pure functions: nothing is asked or remembered here. Any thread.
 *
 * A reader of an item returns false when the item lacks what it can't do without: the caller skips it. */
#ifndef BIDBRAIN_CLOUD_AWS_EC2_ANSWER_H
#define BIDBRAIN_CLOUD_AWS_EC2_ANSWER_H

#include "agileml/cloud/xml_tree.h"
#include "bidbrain/market/market.h"

#include <stdbool.h>

enum {
    EC2_ID_TEXT = 32,    /* of an instance, a request: with the 0 */
    EC2_TOKEN_TEXT = 65, /* of a ClientToken, with the 0 */
    EC2_CODE_TEXT = 80,
    EC2_LINE_TEXT = 200,
};

/* ---- Errors ---- */

/* Why a call failed, by EC2's answer or without one. Holds nothing secret: long runs of what may be an encoded text
 * are left out of `text`, and what EC2 says of a wrong signature (it repeats the request) is left out whole. */
struct ec2_failure {
    int status;                       /* of the HTTP answer; 0: there was none */
    char code[EC2_CODE_TEXT];         /* EC2's code; empty: there was none (no answer, or a body that is not EC2's) */
    char text[EC2_LINE_TEXT];         /* for people */
    char request_id[EC2_ID_TEXT * 2]; /* empty: none was told */
    bool lasting; /* waiting does not help: the request is wrong or not authorized, or EC2 is not at this address */
};

/* From an answer whose status is not 2xx: both forms of XML, and bodies that are none. */
void ec2_failure_read(int status, const char *body, size_t size, struct ec2_failure *failure);
/* Sets `text`: one line, cut, control characters replaced, long encoded runs replaced by "...". */
void ec2_failure_text(struct ec2_failure *failure, const char *text);
/* "RunInstances: InsufficientInstanceCapacity: We currently ... (request 7a62c49f-...)". */
void ec2_failure_line(const struct ec2_failure *failure, const char *action, char *line, size_t size);

/* ---- Items of answers ---- */

struct ec2_price {
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX], product[MARKET_TEXT_MAX];
    struct market_point point;
};
/* Of spotPriceHistorySet. */
bool ec2_price_read(struct xml_element item, struct ec2_price *price);

/* BidBrain's tags proteus:job, proteus:token and proteus:tier. Empty: there is none. */
struct ec2_tags {
    char job[EC2_LINE_TEXT], token[EC2_TOKEN_TEXT], tier[EC2_ID_TEXT];
};

enum ec2_request_state {                        /* of a spot request */
                         EC2_REQUEST_OPEN,      /* waiting; has no instance */
                         EC2_REQUEST_ACTIVE,    /* has an instance, or will have one soon */
                         EC2_REQUEST_CLOSED,    /* its instance has ended */
                         EC2_REQUEST_CANCELLED, /* is over, but may have an instance that still runs */
                         EC2_REQUEST_FAILED,
                         EC2_REQUEST_DISABLED, /* its instance is stopped */
};

struct ec2_spot_request {
    char id[EC2_ID_TEXT];
    char instance[EC2_ID_TEXT]; /* empty: none (yet) */
    enum ec2_request_state state;
    char code[EC2_CODE_TEXT], text[EC2_LINE_TEXT];     /* status code and message, or the fault's when there is one */
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX]; /* empty: not told */
    int64_t updated;                                   /* when it got its status, in seconds since 1970; 0: not known */
    struct ec2_tags tags;
};
/* Of spotInstanceRequestSet. An unknown state counts as open: waiting, no capacity. */
bool ec2_spot_request_read(struct xml_element item, struct ec2_spot_request *request);
/* Whether a status code says that EC2 takes, or took, the instance back. Unknown codes don't. */
bool ec2_status_noticed(const char *code); /* marked-for-..., or ended by EC2 */
bool ec2_status_evicted(const char *code); /* ended by EC2: price, capacity, ... */
/* Whether it says that the instance has ended, whoever ended it: the status is as old as the instance's end. */
bool ec2_status_ended(const char *code);

enum ec2_instance_state {
    EC2_INSTANCE_PENDING,
    EC2_INSTANCE_RUNNING,
    EC2_INSTANCE_STOPPING, /* or shutting down */
    EC2_INSTANCE_STOPPED,
    EC2_INSTANCE_TERMINATED,
};

struct ec2_instance {
    char id[EC2_ID_TEXT];
    char request[EC2_ID_TEXT]; /* the spot request; empty: none */
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX];
    enum ec2_instance_state state;
    int64_t launched; /* seconds since 1970; 0: not told */
    int64_t ended;    /* the moment in the reason of its last transition, if it has stopped or ended; 0: not told */
    bool spot;
    bool evicted;                                    /* by the state reason's code */
    char code[EC2_CODE_TEXT], reason[EC2_LINE_TEXT]; /* of the state reason; empty: none */
    struct ec2_tags tags;
};
/* Of instancesSet (RunInstances, or within a reservation). A state that is not known counts as pending: no capacity. */
bool ec2_instance_read(struct xml_element item, struct ec2_instance *instance);

/* The next page's token. 1; 0 when this was the last page (absent or empty); AML_EINPUT when it is too long. */
enum { EC2_PAGE_TOKEN_TEXT = 4096 };
int ec2_page_token(struct xml_element root, char token[EC2_PAGE_TOKEN_TEXT]);

#endif
