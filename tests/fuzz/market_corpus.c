/* Writes the seeds of market_fuzz into the folder that is its only argument: each form of price files, and a tar
 * archive. No seed is stored in the repository. */
#include "tests/fuzz/corpus.h"

#include <string.h>

enum { CORPUS_SEED_MAX = 4096, CORPUS_TAR = 2 };

static const struct {
    char first;
    const char *text;
} corpus_seeds[] = {
    {0, "{\"SpotPriceHistory\": [{\"Timestamp\": \"2016-04-25T12:00:32.000Z\", \"ProductDescription\": \"Linux/UNIX\", "
        "\"InstanceType\": \"m3.large\", \"SpotPrice\": \"0.018700\", \"AvailabilityZone\": \"us-east-1a\"},\n"
        "{\"Timestamp\": \"2016-04-25T11:00:32+00:00\", \"ProductDescription\": \"Linux\\/UNIX\", \"InstanceType\": "
        "\"m3.large\", \"SpotPrice\": \"1\", \"AvailabilityZone\": \"us-east-1a\"}], \"NextToken\": \"\\u0041\"}"},
    {3,
     "{\"priceChange\":[{\"instanceType\":\"m1.small\",\"productDescription\":\"Linux/UNIX\",\"spotPrice\":0.029,"
     "\"timestamp\":\"2010-04-17T06:11:24.000Z\",\"epochtime\":1271484684000}]}\n{\"priceChange\":[true,null,-1.5]}"},
    {1, "timestamp_utc,price_usd\n2015-03-11T16:50:22Z,0.0219\n2015-03-11T16:56:36Z,1.5\r\n\n"},
    {1, "epoch_ms,timestamp_utc,price_usd\n1262299293000,2009-12-31T22:41:33Z,0.114\n1262307528000,,0.121\n"},
    {1, "\"\",\"Spot Price\",\"Date\",\"time\",\"Availability "
        "Zone\",\"OS\"\n0,$0.0187,2016-04-25,12:00:32,us-east-1a,linux\n"},
    {0, "eyJO\nSPOTPRICEHISTORY\tus-east-1a\tuse1-az2\tm3.large\tRed Hat Enterprise Linux\t0.0187\t"
        "2016-04-25T12:00:32.000Z\nNEXTTOKEN\teyJO\n"},
    {0, "region;instance_type;availability_zone_id;epoch;price\nus-east-1;m3.large;use1-az1;1461585632.5;1\n"},
    {0, "[{\"time\": 1461585632000, \"price\": 0.0187, \"instance_type\": \"m3.large\", \"zone\": \"us-east-1a\"}]"},
    {0, "euw3-az2\tg4dn.4xlarge\tLinux/UNIX\t0.466400\t2022-05-31T18:20:41+00:00\n"},
};

/* Makes an archive with one member, which is the text of corpus_seeds[2]. */
static size_t corpus_archive(char *seed) {
    const char *text = corpus_seeds[2].text;
    memset(seed, 0, CORPUS_SEED_MAX);
    seed[0] = CORPUS_TAR;
    char *header = seed + 1;
    strcpy(header, "c3.xlarge-us-east-1a.csv");
    snprintf(header + 124, 12, "%011o", (unsigned)strlen(text));
    header[156] = '0';
    memcpy(header + 257, "ustar", 6);
    memcpy(header + 512, text, strlen(text));
    return 1 + 512 * 4;
}

int main(int argc, char **argv) {
    char seed[CORPUS_SEED_MAX];
    if (argc != 2) {
        fprintf(stderr, "usage: market_corpus FOLDER\n");
        return 2;
    }
    bool written = corpus_write(argv[1], "archive", seed, corpus_archive(seed));
    for (size_t i = 0; i < sizeof corpus_seeds / sizeof *corpus_seeds && written; i++) {
        char name[32];
        snprintf(name, sizeof name, "seed-%02zu", i);
        seed[0] = corpus_seeds[i].first;
        size_t length = strlen(corpus_seeds[i].text);
        memcpy(seed + 1, corpus_seeds[i].text, length);
        written = corpus_write(argv[1], name, seed, length + 1);
    }
    if (!written) {
        fprintf(stderr, "market_corpus: cannot write into %s\n", argv[1]);
        return 1;
    }
    return 0;
}
