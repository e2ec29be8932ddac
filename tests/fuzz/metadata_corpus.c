/* Writes the seeds of metadata_fuzz into the folder that is its only argument. */
#include "tests/fuzz/corpus.h"

#include <string.h>

/* The first byte chooses what it is, as in metadata_fuzz.c. */
static const char *const seeds[] = {
    "0{\"action\":\"terminate\",\"time\":\"2017-09-18T08:22:00Z\"}",
    "0{\"action\":\"hibernate\",\"time\":\"2017-09-18 08:22:00.123+01:00\",\"more\":[1,{}]}",
    "1{\"Code\":\"Success\",\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Expiration\":\"2026-01-01T06:00:00Z\"}",
    "1{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Token\":\"T\",\"LastUpdated\":\"2026-01-01T00:00:00Z\"}",
    "1{\"Code\":\"AssumeRoleUnauthorizedAccess\",\"Message\":\"no\"}",
    "1{\"code\":\"AccessDenied\",\"message\":\"no\"}",
    "2HTTP/1.1 200 OK\r\nDate: Mon, 20 Nov 2023 10:11:12 GMT\r\nX-aws-ec2-metadata-token-ttl-seconds: 21600\r\n\r\n",
    "2date:\t1\nx:\n: \n",
};

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: metadata_corpus FOLDER\n");
        return 2;
    }
    for (unsigned i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "seed-%02u", i);
        if (!corpus_write(argv[1], name, seeds[i], strlen(seeds[i]))) {
            fprintf(stderr, "metadata_corpus: cannot write %s into %s\n", name, argv[1]);
            return 1;
        }
    }
    return 0;
}
