/* Writes the seeds of aws_profile_fuzz into the folder that is its only argument. */
#include "tests/fuzz/corpus.h"

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
    return corpus_main("aws_profile_corpus", argc, argv, seeds, sizeof seeds / sizeof *seeds);
}
