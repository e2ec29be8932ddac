/* Writes the seeds of aws_profile_fuzz into the folder that is its only argument. */
#include "tests/fuzz/corpus.h"

#include <string.h>

/* The first byte chooses what it is, as in aws_profile_fuzz.c. */
static const char *const seeds[] = {
    "2[default]\naws_access_key_id = A\naws_secret_access_key = B # c\naws_session_token: C\n",
    "0; comment\r\n[dev]\r\n aws_access_key_id=A\r\n aws_secret_access_key=B\r\n",
    "3[profile default]\nregion = us-east-1\nservices = x\n[services x]\nec2 =\n  endpoint_url = http://a\n",
    "1[profile \"dev\"]\nendpoint_url = http://a\nignore_configure_endpoint_urls = true\nrole_arn = r\n",
    "3[default]\n[profile default\n",
    "1\xEF\xBB\xBF[profile  dev ]\ns3 = a\n  b\n",
};

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: aws_profile_corpus FOLDER\n");
        return 2;
    }
    for (unsigned i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "seed-%02u", i);
        if (!corpus_write(argv[1], name, seeds[i], strlen(seeds[i]))) {
            fprintf(stderr, "aws_profile_corpus: cannot write %s into %s\n", name, argv[1]);
            return 1;
        }
    }
    return 0;
}
