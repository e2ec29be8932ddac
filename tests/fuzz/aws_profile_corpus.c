/* Writes the seeds of aws_profile_fuzz into the folder that is its only argument. */
#include "tests/fuzz/corpus.h"

/* The first byte chooses the kind of text, as in aws_profile_fuzz.c. */
static const char *const seeds[] = {
    "2[default]\naws_access_key_id = A\naws_secret_access_key = B # c\naws_session_token: C\n",
    "0; comment\r\n[dev]\r\n aws_access_key_id=A\r\n aws_secret_access_key=B\r\n",
    "3[profile default]\nregion = us-east-1\nservices = x\n[services x]\nec2 =\n  endpoint_url = http://a\n",
    "1[profile \"dev\"]\nendpoint_url = http://a\nignore_configure_endpoint_urls = true\nrole_arn = r\n",
    "1[profile dev]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = a b\nexternal_id = 1:2\nmfa_serial = m\n"
    "duration_seconds = 900\nrole_session_name = me\nservices = s\n[services s]\nsts =\n  endpoint_url = https://s\n",
    "3[default]\nweb_identity_token_file = /a b/c\nrole_arn = arn:x\nsso_session = s\nca_bundle = /x\n"
    "use_fips_endpoint = true\nec2_metadata_service_endpoint = http://a\ns3 =\n  use_dualstack_endpoint = true\n",
    "3[default]\n[profile default\n",
    "1\xEF\xBB\xBF[profile  dev ]\ns3 = a\n  b\n",
};

int main(int argc, char **argv) {
    return corpus_main("aws_profile_corpus", argc, argv, seeds, sizeof seeds / sizeof *seeds);
}
