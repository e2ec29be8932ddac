/* Writes the seeds of metadata_fuzz into the folder that is its only argument. */
#include "tests/fuzz/corpus.h"

/* The first byte chooses the kind of text, as in metadata_fuzz.c. */
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
    return corpus_main("metadata_corpus", argc, argv, seeds, sizeof seeds / sizeof *seeds);
}
