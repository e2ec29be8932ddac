/* Writes the seeds of config_fuzz into the folder that is its only argument. No seed is stored in the repository. */
#include "tests/fuzz/corpus.h"

static const char *const corpus_seeds[] = {
    "{\"job\": \"j\", \"provider\": \"ec2\", \"region\": \"us-east-1\", \"model\": \"ec2-2016\", \"endpoint\": "
    "\"http://x\","
    " \"markets\": {\"types\": [\"c4.xlarge\"], \"zones\": [\"us-east-1a\"], \"product\": \"Linux/UNIX\"},"
    " \"launch\": {\"call\": \"create-fleet\", \"image\": \"ami-1\", \"subnets\": {\"us-east-1a\": \"subnet-1\"},"
    " \"security_groups\": [\"sg-1\"], \"key_name\": \"k\", \"instance_profile\": \"p\", \"launch_template\": "
    "\"lt-1\"},"
    " \"node\": {\"app\": \"mf\", \"binary\": \"s3://b/mf\", \"arguments\": [\"--rank\", \"8\"], \"threads\": 2},"
    " \"controller\": \"tcp://10.0.0.1:7000\", \"insecure\": true, \"on_demand\": {\"type\": \"c4.large\", \"count\": "
    "2},"
    " \"application\": {\"phi\": 0.9, \"sigma_seconds\": 3, \"lambda_seconds\": 6, \"measure\": false},"
    " \"limits\": {\"most_vcpus\": 64, \"budget_dollars\": 5, \"cooldown_seconds\": 60, \"least_markets\": 2},"
    " \"decision_seconds\": 60, \"on_demand_fallback\": true}",
    "{\"job\": \"j\", \"provider\": \"local\", \"prices\": \"p\", \"clock\": {\"start\": \"2016-03-01T00:00:00Z\","
    " \"speed\": 120}, \"markets\": {\"zones\": [\"us-east-1a\"]}, \"node\": {\"app\": \"mf\", \"binary\": "
    "\"/bin/mf\"},"
    " \"controller\": \"tcp://127.0.0.1:1\", \"on_demand\": {\"type\": \"m3.large\", \"count\": 0},"
    " \"limits\": {\"most_vcpus\": 8}, \"state\": \"s.db\", \"folder\": \"/tmp/f\", \"key\": \"k\"}",
};

int main(int argc, char **argv) {
    return corpus_main("config_corpus", argc, argv, corpus_seeds, sizeof corpus_seeds / sizeof *corpus_seeds);
}
