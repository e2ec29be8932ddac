/* The content of EC2's answers, as typed values. Readers find XML elements by path (xml_tree.h) and ignore namespaces,
 * order and unknown elements. Pure functions; any thread.
 *
 * The reader of an item returns false when the item lacks a required part. The caller then skips the item. */
#ifndef BIDBRAIN_CLOUD_AWS_EC2_ANSWER_H
#define BIDBRAIN_CLOUD_AWS_EC2_ANSWER_H

#include "agileml/cloud/xml_tree.h"
#include "bidbrain/market/market.h"

#include <stdbool.h>

enum {
    EC2_ID_TEXT = 32,    /* bytes of an instance's or a request's id, with the NUL */
    EC2_TOKEN_TEXT = 65, /* bytes of a ClientToken, with the NUL */
    EC2_CODE_TEXT = 80,
    EC2_LINE_TEXT = 200,
};

/* ---- Errors ---- */

/* Why a call failed, with or without EC2's answer. Holds no secrets. Long runs of what may be encoded text are left out
 * of `text`. EC2's message about a wrong signature repeats the request, and is left out whole. */
struct ec2_failure {
    int status;                       /* HTTP status of the answer; 0: no answer */
    char code[EC2_CODE_TEXT];         /* EC2's code; empty: no answer, or a body that is not EC2's */
    char text[EC2_LINE_TEXT];         /* message for people */
    char request_id[EC2_ID_TEXT * 2]; /* empty: unknown */
    bool lasting; /* retries are of no use: the request is wrong or not authorized, or EC2 is not at this address */
};

/* Reads an answer whose status is not 2xx: either form of XML, or any other body. */
void ec2_failure_read(int status, const char *body, size_t size, struct ec2_failure *failure);
/* Sets `text` to one line. Cuts it, and replaces control characters, and long encoded runs by "...". */
void ec2_failure_text(struct ec2_failure *failure, const char *text);
/* Writes a line such as "RunInstances: InsufficientInstanceCapacity: We currently ... (request 7a62c49f-...)". */
void ec2_failure_line(const struct ec2_failure *failure, const char *action, char *line, size_t size);

/* ---- Items of answers ---- */

struct ec2_price {
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX], product[MARKET_TEXT_MAX];
    struct market_point point;
};
/* Reads an item of spotPriceHistorySet. */
bool ec2_price_read(struct xml_element item, struct ec2_price *price);

/* BidBrain's tags proteus:job, proteus:token and proteus:tier. Empty: no such tag. */
struct ec2_tags {
    char job[EC2_LINE_TEXT], token[EC2_TOKEN_TEXT], tier[EC2_ID_TEXT];
};

enum ec2_request_state {                        /* the states of a spot request */
                         EC2_REQUEST_OPEN,      /* waiting; has no instance */
                         EC2_REQUEST_ACTIVE,    /* has an instance, or will have one soon */
                         EC2_REQUEST_CLOSED,    /* the request's instance has ended */
                         EC2_REQUEST_CANCELLED, /* is over, but its instance may still run */
                         EC2_REQUEST_FAILED,
                         EC2_REQUEST_DISABLED, /* the request's instance is stopped */
};

struct ec2_spot_request {
    char id[EC2_ID_TEXT];
    char instance[EC2_ID_TEXT]; /* empty: none (yet) */
    enum ec2_request_state state;
    /* code and message of the fault, if there is one, else of the status */
    char code[EC2_CODE_TEXT], text[EC2_LINE_TEXT];
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX]; /* empty: unknown */
    int64_t updated;                                   /* when the status was set, in seconds since 1970; 0: unknown */
    struct ec2_tags tags;
};
/* Reads an item of spotInstanceRequestSet. An unknown state counts as open: waiting, no capacity. */
bool ec2_spot_request_read(struct xml_element item, struct ec2_spot_request *request);
/* Whether a status code says that EC2 takes, or took, the instance back. False for unknown codes. */
bool ec2_status_noticed(const char *code); /* marked-for-..., or ended by EC2 */
bool ec2_status_evicted(const char *code); /* ended by EC2: price, capacity, ... */
/* Whether the code says that the instance has ended, by EC2 or by us. The status's time is then that of the end. */
bool ec2_status_ended(const char *code);

enum ec2_instance_state {
    EC2_INSTANCE_PENDING,
    EC2_INSTANCE_RUNNING,
    EC2_INSTANCE_STOPPING, /* stopping or shutting down */
    EC2_INSTANCE_STOPPED,
    EC2_INSTANCE_TERMINATED,
};

struct ec2_instance {
    char id[EC2_ID_TEXT];
    char request[EC2_ID_TEXT]; /* id of its spot request; empty: none */
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX];
    enum ec2_instance_state state;
    int64_t launched; /* seconds since 1970; 0: unknown */
    int64_t ended;    /* when it stopped or ended, by the reason of its last transition; 0: unknown */
    bool spot;
    bool evicted;                                    /* EC2 took it back, by the code of the state reason */
    char code[EC2_CODE_TEXT], reason[EC2_LINE_TEXT]; /* the state reason; empty: none */
    struct ec2_tags tags;
};
/* Reads an item of instancesSet (from RunInstances, or within a reservation). An unknown state counts as pending: no
 * capacity. */
bool ec2_instance_read(struct xml_element item, struct ec2_instance *instance);

/* Reads the next page's token. Returns 1; 0 if this was the last page (the token is absent or empty); AML_EINPUT if it
 * is too long. */
enum { EC2_PAGE_TOKEN_TEXT = 4096 };
int ec2_page_token(struct xml_element root, char token[EC2_PAGE_TOKEN_TEXT]);

#endif
