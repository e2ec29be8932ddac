/* bidbrain/market/market, market_read, market_store, catalog, money, instant: what users of prices can see. Queries
 * are compared with plain loops over the points. The files of ../shared/data are read where they exist. */

#include "agileml/base/instant.h"
#include "agileml/base/memory.h"
#include "bidbrain/market/catalog.h"
#include "bidbrain/market/market_read.h"
#include "bidbrain/market/market_store.h"
#include "tests/files.h"
#include "tests/test.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

TEST(prices_are_read_exactly) {
    static const struct {
        const char *text;
        int64_t price;
        bool good;
    } examples[] = {{"0.0187", 18700, true},   {"21", 21000000, true},
                    {"0.017400", 17400, true}, {"0.0000004", 0, true},
                    {"0.0000005", 1, true},    {"0.0000014999", 1, true},
                    {".5", 500000, true},      {"5.", 5000000, true},
                    {"-0.5", -500000, true},   {"99999.999999", 99999999999, true},
                    {"100000", 0, false},      {"", 0, false},
                    {".", 0, false},           {"1e3", 0, false},
                    {"0x1", 0, false},         {"1.2.3", 0, false},
                    {"nan", 0, false},         {"1 ", 0, false}};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        int64_t price;
        assert_int_equal(price_parse(examples[i].text, &price), examples[i].good);
        if (examples[i].good) {
            assert_int_equal(price, examples[i].price);
            char text[PRICE_TEXT_MAX];
            int64_t again;
            price_format(price, text);
            assert_true(price_parse(text, &again) && again == price);
        }
    }
}

TEST(times_are_read_and_written) {
    static const struct {
        const char *text;
        int64_t time; /* -1: the text is refused */
    } examples[] = {{"2016-04-25T12:00:32.000Z", 1461585632},
                    {"2016-04-25T12:00:32", 1461585632},
                    {"2016-04-25 12:00:32Z", 1461585632},
                    {"2021-05-31T00:12:26+00:00", 1622419946},
                    {"2021-05-31T02:12:26+02:00", 1622419946},
                    {"2021-05-30T19:12:26-05:00", 1622419946},
                    {"2016-04-25T21:00:32+0900", 1461585632},
                    {"2016-04-25T06:30:32-0530", 1461585632},
                    {"2016-04-25T21:00:32+09", -1},
                    {"2016-04-25T21:00:32+0960", -1},
                    {"2016-04-25T21:00:32+09000", -1},
                    {"2016-02-29T00:00:00Z", 1456704000},
                    {"2015-02-29T00:00:00Z", -1},
                    {"2016-13-01T00:00:00Z", -1},
                    {"2016-01-01T24:00:00Z", -1},
                    {"1999-01-01T00:00:00Z", -1},
                    {"2100-01-01T00:00:00Z", -1},
                    {"2016-01-01", -1},
                    {"2016-01-01T00:00:00Zulu", -1},
                    {"", -1}};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        int64_t time;
        bool good = instant_parse(examples[i].text, &time);
        assert_int_equal(good ? time : -1, examples[i].time);
        if (good) {
            char text[INSTANT_TEXT_MAX];
            int64_t again;
            instant_format(time, text);
            assert_true(instant_parse(text, &again) && again == time);
        }
    }
}

static void add(struct markets *markets, const char *type, const char *zone, int64_t time, int64_t price) {
    assert_int_equal(markets_add(markets, type, zone, MARKET_PRODUCT, (struct market_point){time, price}, NULL), 0);
}

TEST(prices_hold_until_the_next) {
    CLOSED_BY(markets_close) struct markets markets = {0};
    add(&markets, "b", "z1a", 300, 30);
    add(&markets, "b", "z1a", 100, 10);
    add(&markets, "b", "z1a", 200, 20);
    add(&markets, "b", "z1a", 200, 25);
    add(&markets, "b", "z1a", 100, 10);
    add(&markets, "a", "z1a", 150, 7);
    markets_finish(&markets);
    assert_int_equal(markets.count, 2);
    assert_string_equal(markets.list[0]->type, "a");
    const struct market *market = markets.list[1];
    assert_string_equal(market->type, "b");
    assert_int_equal(market->count, 3);
    assert_int_equal(markets.duplicates, 1);
    assert_int_equal(markets.conflicts, 1);
    assert_true(markets.unordered > 0);
    static const int64_t expected[][2] = {{99, PRICE_UNKNOWN}, {100, 10}, {199, 10}, {200, 25}, {299, 25}, {9999, 30}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(market_price(market, expected[i][0]), expected[i][1]);
    }
    assert_int_equal(market_first_above(market, 0, 9), 100);
    assert_int_equal(market_first_above(market, 150, 9), 150);
    assert_int_equal(market_first_above(market, 150, 10), 200);
    assert_int_equal(market_first_above(market, 150, 25), 300);
    assert_int_equal(market_first_above(market, 150, 30), MARKET_NEVER);
    assert_int_equal(market_highest(market, 0, 99), PRICE_UNKNOWN);
    assert_int_equal(market_highest(market, 0, 199), 10);
    assert_int_equal(market_highest(market, 250, 251), 25);
}

TEST(queries_agree_with_plain_loops) {
    uint64_t random = 1;
    for (size_t count = 1; count < 5000; count = count * 3 + 1) {
        CLOSED_BY(markets_close) struct markets markets = {0};
        int64_t time = 1000;
        for (size_t i = 0; i < count; i++) {
            random = hash_mix(random);
            time += 1 + (int64_t)(random % 50);
            /* mostly low with rare spikes, as real prices */
            int64_t price = 1 + (int64_t)((random >> 20) % 100);
            price += (random >> 40) % 200 == 0 ? (int64_t)((random >> 8) % 1000) : 0;
            add(&markets, "t", "z", time, price);
            if (i % 7 == 0) {
                markets_finish(&markets); /* finish again after each point, as for live prices */
            }
        }
        markets_finish(&markets);
        assert_int_equal(markets.duplicates + markets.conflicts + markets.unordered, 0);
        const struct market *market = markets.list[0];
        assert_int_equal(market->count, count);
        for (int q = 0; q < 300; q++) {
            random = hash_mix(random);
            int64_t from = 990 + (int64_t)(random % (uint64_t)(time - 900));
            int64_t to = from + (int64_t)((random >> 16) % 20000);
            int64_t bid = (int64_t)((random >> 32) % 1100);
            int64_t above = MARKET_NEVER;
            int64_t highest = PRICE_UNKNOWN;
            int64_t holds = PRICE_UNKNOWN;
            for (size_t i = 0; i < count; i++) {
                struct market_point point = market->points[i];
                int64_t until = i + 1 < count ? market->points[i + 1].time : INT64_MAX;
                int64_t begin = point.time > from ? point.time : from;
                holds = point.time <= from ? point.price : holds;
                above = begin < until && point.price > bid && begin < above ? begin : above;
                highest = begin < until && begin <= to && point.price > highest ? point.price : highest;
            }
            assert_int_equal(market_price(market, from), holds);
            assert_int_equal(market_first_above(market, from, bid), above);
            assert_int_equal(market_highest(market, from, to), highest);
        }
    }
}

#define AWS_ITEM(time, price)                                                                                          \
    "{\"Timestamp\": \"" time "\", \"ProductDescription\": \"Linux/UNIX\", \"InstanceType\": \"m3.large\","            \
    " \"SpotPrice\": \"" price "\", \"AvailabilityZone\": \"us-east-1a\"}"
#define AWS_FILE                                                                                                       \
    "{\"SpotPriceHistory\": [\n" AWS_ITEM("2016-04-25T12:00:32.000Z", "0.018700") ",\n" AWS_ITEM(                      \
        "2016-04-25T11:32:53.000Z", "0.018600") "\n], \"NextToken\": \"\"}\n"

static const struct market *find_market(const struct markets *markets, const char *type, const char *zone,
                                        const char *product) {
    const struct market *found = NULL;
    for (size_t m = 0; m < markets->count; m++) {
        const struct market *market = markets->list[m];
        bool same = strcmp(market->type, type) == 0 && strcmp(market->zone, zone) == 0;
        found = same && strcmp(market->product, product) == 0 ? market : found;
    }
    return found;
}

static void check_read(const char *path, const char *type, const char *zone, const char *product, size_t count,
                       int64_t time, int64_t price) {
    CLOSED_BY(markets_close) struct markets markets = {0};
    struct error error = {0};
    if (market_read(&markets, path, product, &error) != 0) {
        fail_msg("%s", error.text);
    }
    markets_finish(&markets);
    const struct market *market = find_market(&markets, type, zone, product == NULL ? MARKET_PRODUCT : product);
    assert_non_null(market);
    assert_int_equal(market->count, count);
    assert_int_equal(market_price(market, time), price);
    assert_int_equal(markets.unordered, 0);
}

TEST_WITH(all_forms_are_read, files_open, files_close) {
    check_read(write_text("any.json", AWS_FILE), "m3.large", "us-east-1a", MARKET_PRODUCT, 2, 1461584000, 18600);
    check_read(write_text("ec2-spot-market-VA.json",
                          "{\"requests\":{\"a\":\"b\"},\"priceChange\":[{\"instanceType\":\"m1.small\","
                          "\"productDescription\":\"Linux/UNIX\",\"spotPrice\":0.029,\"timestamp\":"
                          "\"2010-04-17T06:11:24.000Z\",\"epochtime\":1271484684000}]}\n{\"priceChange\":[]}\n"),
               "m1.small", "us-east-1", MARKET_PRODUCT, 1, 1271484684, 29000);
    check_read(write_text("r3.large-us-east-1a.csv", "timestamp_utc,price_usd\r\n2015-03-11T16:50:22Z,0.0219\r\n"
                                                     "2015-03-11T16:56:36Z,1.5"),
               "r3.large", "us-east-1a", MARKET_PRODUCT, 2, 1426092996, 1500000);
    check_read(
        write_text("r3.xlarge-us-east-1a.csv", "2015-03-12T01:50:22+0900,0.0219\n2015-03-12T01:56:36+0900,1.5\n"),
        "r3.xlarge", "us-east-1a", MARKET_PRODUCT, 2, 1426092996, 1500000);
    check_read(write_text("m1.large-us-east-1.csv", "epoch_ms,timestamp_utc,price_usd\n1262299293000,,0.114\n"),
               "m1.large", "us-east-1", MARKET_PRODUCT, 1, 1262299293, 114000);
    check_read(write_text("2022-05.tsv", "euw3-az2\tg4dn.4xlarge\tLinux/UNIX\t0.466400\t2022-05-31T18:20:41+00:00\n"
                                         "euw3-az2\tg4dn.4xlarge\tSUSE Linux\t0.591400\t2022-05-31T18:20:41+00:00\n"),
               "g4dn.4xlarge", "euw3-az2", "SUSE Linux", 1, 1654021241, 591400);
}

/* Columns are found by name, in any order and spelling, beside unknown columns. */
TEST_WITH(columns_are_named, files_open, files_close) {
    static const char *const texts[] = {
        "Timestamp,InstanceType,AvailabilityZone,ProductDescription,SpotPrice\n"
        "2016-04-25T12:00:32.000Z,m3.large,us-east-1a,Linux/UNIX,0.0187\n"
        "2016-04-25T12:00:32.000Z,m3.large,us-east-1a,Windows,0.9\n",
        "\"\",\"Spot Price\",\"Instance Type\",\"Product-Description\",\"Availability Zone\",\"Time\"\n"
        "\"0\",\"$0.0187\",\"m3.large\",\"Linux/UNIX\",\"us-east-1a\",\"2016-04-25 12:00:32\"\n",
        "spot_price;region;availability_zone_id;availability_zone;instance_type;date;time\n"
        "0.0187;us-east-1;use1-az2;us-east-1a;m3.large;2016-04-25;12:00:32\n",
        "price\tos\tzone\ttype\tunix_time\n0.0187\tlinux\tus-east-1a\tm3.large\t1461585632\n"
        "0.5\twindows\tus-east-1a\tm3.large\t1461585632\n",
        "time,price,type,zone\n,0.5,m3.large,us-east-1a\n2016-04-25 14:00:32 +0200,0.0187,m3.large,us-east-1a\n",
        "epoch,price,type,zone\n1461585632000,0.0187,m3.large,us-east-1a\n",
        /* The AWS CLI's --output text: current, with the zone's id; with tokens for the next page; by --query. */
        "SPOTPRICEHISTORY\tus-east-1a\tm3.large\tLinux/UNIX\t0.018700\t2016-04-25T12:00:32+00:00\n"
        "SPOTPRICEHISTORY\tus-east-1a\tm3.large\tRed Hat Enterprise Linux\t0.9\t2016-04-25T12:00:32+00:00\n"
        "NEXTTOKEN\teyJOZXh0VG9rZW4iOiBudWxsfQ==\n",
        "eyJOZXh0VG9rZW4iOiBudWxsfQ==\n"
        "SPOTPRICEHISTORY\tus-east-1a\tuse1-az2\tm3.large\tLinux/UNIX\t0.018700\t2016-04-25T12:00:32.000Z\n",
        "2016-04-25T12:00:32.000Z\tm3.large\t0.018700\tus-east-1a\n",
        "[{\"time\": 1461585632, \"price\": 0.0187, \"instance_type\": \"m3.large\", \"zone\": \"us-east-1a\"}]",
        "date,epoch,price,type,zone\n2016-04-25,1461585632,0.0187,m3.large,us-east-1a\n",
        /* JSON: numbers of every unit; a time of day before or after its date. */
        "[{\"time\": 1461585632000, \"price\": 187e-4, \"type\": \"m3.large\", \"zone\": \"us-east-1a\"}]",
        "[{\"time\": 1461585632000000, \"price\": 0.0187, \"type\": \"m3.large\", \"zone\": \"us-east-1a\"}]",
        "[{\"time\": 1461585632000000000, \"price\": 0.0187, \"type\": \"m3.large\", \"zone\": \"us-east-1a\"}]",
        "[{\"time\": 1461585632e6, \"price\": 0.0187, \"type\": \"m3.large\", \"zone\": \"us-east-1a\"}]",
        "[{\"time\": 1461585632.75, \"price\": 0.0187, \"type\": \"m3.large\", \"zone\": \"us-east-1a\"}]",
        "[{\"time\": \"12:00:32\", \"date\": \"2016-04-25\", \"price\": 0.0187, \"type\": \"m3.large\", \"zone\": "
        "\"us-east-1a\"}]",
        "[{\"date\": \"2016/04/25\", \"price\": 0.0187, \"type\": \"m3.large\", \"zone\": \"us-east-1a\", \"time\": "
        "\"12:00:32Z\"}]",
        "[{\"date\": 20160425, \"price\": 0.0187, \"type\": \"m3.large\", \"zone\": \"us-east-1a\", \"epoch\": "
        "1461585632}]",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_read(write_text("named.csv", texts[i]), "m3.large", "us-east-1a", MARKET_PRODUCT, 1, 1461585632, 18700);
    }
    check_read(write_text("m3.large-us-east-1a.csv", "day,usd\n2016/04/25,0.0187\n"), "m3.large", "us-east-1a",
               MARKET_PRODUCT, 1, 1461542400, 18700);
    static const char *const days[] = {
        "[{\"date\": \"2016-04-25\", \"price\": 0.0187, \"type\": \"m3.large\", \"zone\": \"us-east-1a\"}]",
        "[{\"price\": 0.0187, \"day\": 20160425, \"type\": \"m3.large\", \"zone\": \"us-east-1a\"}]",
        ("{\"price\": 0.000005, \"date\": \"2016-04-24\", \"type\": \"m3.large\", \"zone\": \"us-east-1a\"}\n"
         "{\"price\": 0.0187, \"date\": \"2016-04-25\", \"type\": \"m3.large\", \"zone\": \"us-east-1a\"}"),
    };
    for (size_t i = 0; i < sizeof days / sizeof *days; i++) {
        check_read(write_text("days.json", days[i]), "m3.large", "us-east-1a", MARKET_PRODUCT, i == 2 ? 2 : 1,
                   1461542400, 18700);
    }
}

TEST_WITH(times_are_read_in_many_forms, files_open, files_close) {
    static const struct {
        const char *text;
        int64_t time; /* 0: the text is refused */
    } examples[] = {
        {"2016-04-25T12:00:32Z", 1461585632},
        {"2016-04-25 12:00:32.5", 1461585632},
        {"2016-04-25T12:00:32,123+0000", 1461585632},
        {"2016-04-25T14:00:32 +02:00", 1461585632},
        {"2016-04-25T14:00:32+02", 1461585632},
        {"2016-04-25 12:00:32 UTC", 1461585632},
        {"2016/04/25 12:00:32", 1461585632},
        {"2016-04-25T12:00", 1461585600},
        {"2016-04-25T12:00Z", 1461585600},
        {"2016-04-25", 1461542400},
        {"20160425", 1461542400},
        {"1461585632", 1461585632},
        {"1461585632.75", 1461585632},
        {"1461585632000", 1461585632},
        {"1461585632000000", 1461585632},
        {"1461585632000000000", 1461585632},
        {"12", 0},
        {"", 0},
        {"14615856320000000000", 0},
        {"2016-04-25T12", 0},
        {"2016-04-25T12:00:32 CET", 0},
        {"2016-04-25T12:00:32Z and more", 0},
        {"2016-13-25", 0},
        {"2016/04-25", 0},
        {"25.04.2016", 0},
        {"04/25/2016 12:00", 0},
        {"2016-04-25 12:00:32 +02:00:00", 0},
        {"99991231", 0},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        int64_t time = 0;
        bool good = instant_parse_any(examples[i].text, &time);
        if (good != (examples[i].time != 0) || (good && time != examples[i].time)) {
            fail_msg("%s: %d, %lld", examples[i].text, good, (long long)time);
        }
    }
}

TEST_WITH(gzip_folders_and_archives_are_read, files_open, files_close) {
    write_text("prices/SOURCE.md", "not prices");
    write_text("prices/r3.large-us-east-1b.csv", "timestamp_utc,price_usd\n2015-03-11T16:50:22Z,0.5\n");
    gzFile file = gzopen("prices/a.json.gz", "wb");
    assert_int_equal(gzputs(file, AWS_FILE), strlen(AWS_FILE));
    assert_int_equal(gzclose(file), Z_OK);
    struct markets markets = {0};
    assert_int_equal(market_read(&markets, "prices", MARKET_PRODUCT, NULL), 0);
    markets_finish(&markets);
    assert_int_equal(markets.count, 2);
    assert_int_equal(markets.files, 2);
    markets_close(&markets);

    assert_int_equal(system("gunzip -k prices/a.json.gz && "
                            "tar czf all.tar.gz prices/a.json prices/r3.large-us-east-1b.csv"),
                     0);
    assert_int_equal(market_read(&markets, "all.tar.gz", MARKET_PRODUCT, NULL), 0);
    markets_finish(&markets);
    assert_int_equal(markets.count, 2);
    assert_int_equal(markets.points, 3);
    markets_close(&markets);
}

TEST_WITH(wrong_files_are_explained, files_open, files_close) {
    static const struct {
        const char *name, *text, *message; /* message: after the path */
    } examples[] = {
        {"a.json", "{\"SpotPriceHistory\": [\n{\"SpotPrice\": \"-0.1\"}]}",
         ":2: price '-0.1': expected no negative price"},
        {"a.json", "{\"SpotPriceHistory\": [\n\n{\"SpotPrice\": \"abc\"}]}",
         ":3: price 'abc': expected dollars per hour, such as 0.0187"},
        {"a.json", "{\"SpotPriceHistory\": [{\"Timestamp\": \"yesterday\"}]}",
         ":1: time 'yesterday': expected such as 2016-04-25T12:00:32Z, or seconds to nanoseconds since 1970, from "
         "2006 to "
         "2099"},
        {"a.json", "{\"SpotPriceHistory\": [\n" AWS_ITEM("2016-04-25T12:00:32.000Z", "0.018700"),
         ":2: broken JSON: ']' expected near end of file"},
        {"a.json", "{\"SpotPriceHistory\" [", ":1: broken JSON: ':' expected near '['"},
        {"a.json", "{\"SpotPriceHistory\": [tru]}", ":1: broken JSON: invalid token near 'tru'"},
        {"a.json", "{\"SpotPriceHistory\": [\n{\"SpotPrice\":\n\"1}\"]}]}", ":3: broken JSON: '}' expected near ']'"},
        {"a.json", "{\"SpotPriceHistory\": [{}\n, null {}]}", ":2: broken JSON: ']' expected near 'null'"},
        {"a.json", "[]\n7", ":2: broken JSON: expected an object or an array"},
        {"a.json", "{\"SpotPriceHistory\": []}", ":1: no spot prices in this file"},
        {"a.json", "", ":1: no spot prices in this file"},
        {"a.json", "{\"SpotPriceHistory\": [{\"SpotPrice\": \"1\"}]}",
         ":1: no record has a type, a zone, a price and a time, and the file's name is not TYPE-ZONE"},
        {"a.b-c.csv", "timestamp_utc,price_usd\n2015-03-11T16:50:22Z,0.0219\n2015-03-11T16:50:22Z\n",
         ":3: 1 columns: expected 2"},
        {"a.b-c.csv", "timestamp_utc,price_usd\n2015-03-11T16:50:22Z,-1\n",
         ":2: price '-1': expected no negative price"},
        {"a.b-c.csv", "when,what\n",
         ":1: neither a header with a time and a price column nor a line with one time and one price, such as zone, "
         "type, product, price, time"},
        {"a.b-c.csv", "epoch_ms,price\n12,1\n",
         ":2: time '12': expected such as 2016-04-25T12:00:32Z, or seconds to nanoseconds since 1970, from 2006 to "
         "2099"},
        {"a.b-c.csv", "date,price\n25/04/2016,1\n",
         ":2: time '25/04/2016': expected such as 2016-04-25T12:00:32Z, or seconds to nanoseconds since 1970, from "
         "2006 to 2099"},
        {"a.b-c.csv", "timestamp,zone\n2016-04-25T12:00:32Z,us-east-1a\n",
         ":1: a header without a column of the price: expected columns such as timestamp and price"},
        {"a.b-c.csv", "SpotPrice;InstanceType\n1;m3.large\n",
         ":1: a header without a column of the time: expected columns such as timestamp and price"},
        {"a.b-c.csv", "time,price,SpotPrice\n2016-04-25T12:00:32Z,1,2\n",
         ":1: two columns name the price: 2 (price) and 3 (SpotPrice)"},
        {"a.b-c.csv", "0,2016-04-25T12:00:32Z,1\n",
         ":1: neither a header with a time and a price column nor a line with one time and one price, such as zone, "
         "type, product, price, time"},
        {"a.b-c.csv", "eyJOZXh0VG9rZW4iOiBudWxsfQ==\n2016-04-25T12:00:32Z,1\n",
         ":1: expected several columns: a time, a price, perhaps zone, type and product"},
        {"a.b-c.csv", "time,price\n\"2016-04-25T12:00:32Z,1\n",
         ":2: a '\"' that is not closed before the next separator"},
        {"a.csv", "------------------\n|  DescribeSpotPriceHistory  |\n",
         ":1: this is the AWS CLI's --output table: expected --output json or --output text"},
        {"a.csv", "SpotPriceHistory:\n- AvailabilityZone: us-east-1a\n",
         ":1: this is the AWS CLI's --output yaml: expected --output json or --output text"},
        {"a.tar", "not an archive at all", ":1: the archive is cut short"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        CLOSED_BY(markets_close) struct markets markets = {0};
        struct error error = {0};
        const char *path = write_text(examples[i].name, examples[i].text);
        assert_int_equal(market_read(&markets, path, NULL, &error), AML_EINPUT);
        assert_true(strncmp(error.text, path, strlen(path)) == 0);
        assert_string_equal(error.text + strlen(path), examples[i].message);
    }
    CLOSED_BY(markets_close) struct markets markets = {0};
    struct error error = {0};
    assert_int_equal(market_read(&markets, "/nowhere", NULL, &error), AML_EINPUT);
    assert_string_equal(error.text, "/nowhere: No such file or directory");
    gzFile file = gzopen("cut.json.gz", "wb");
    assert_int_equal(gzputs(file, AWS_FILE), strlen(AWS_FILE));
    assert_int_equal(gzclose(file), Z_OK);
    assert_int_equal(truncate("cut.json.gz", 120), 0);
    error.code = 0;
    assert_int_equal(market_read(&markets, "cut.json.gz", NULL, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "truncated gzip data: the file ends too early"));
}

/* Read elements are not kept: a list may be longer than the limit for single objects and arrays. */
TEST_WITH(lists_may_be_long, files_open, files_close) {
    static const char one[] = "{\"SpotPrice\": 1} ,\n [] , ";
    const size_t count = 2 * MARKET_READ_TEXT_MAX / sizeof one;
    FREED char *text = memory_zeroed(count + 32, sizeof one);
    text[0] = '[';
    for (size_t i = 0; i < count; i++) {
        memcpy(text + 1 + i * (sizeof one - 1), one, sizeof one - 1);
    }
    strcpy(text + 1 + count * (sizeof one - 1), AWS_ITEM("2016-04-25T12:00:32.000Z", "0.018700") "]");
    struct markets markets = {0};
    struct error error = {0};
    assert_int_equal(market_read(&markets, write_text("long.json", text), MARKET_PRODUCT, &error), 0);
    assert_int_equal(markets.skipped, count);
    assert_int_equal(markets.points, 1);
    markets_close(&markets);
    memset(text + 1, '7', count * (sizeof one - 1));
    const char *path = write_text("long.json", text);
    assert_int_equal(market_read(&markets, path, MARKET_PRODUCT, &error), AML_EINPUT);
    assert_string_equal(error.text + strlen(path),
                        ":1: broken JSON: an object or array of more than 1 MiB, too long for prices");
    markets_close(&markets);
}

TEST_WITH(items_that_miss_a_field_are_skipped, files_open, files_close) {
    CLOSED_BY(markets_close) struct markets markets = {0};
    const char *path =
        write_text("skip.json", "{\"SpotPriceHistory\": [{\"SpotPrice\": \"1\"},\n" AWS_ITEM(
                                    "2016-04-25T11:00:32.000Z", "0.000000") "," AWS_ITEM("2016-04-25T12:00:32.000Z",
                                                                                         "0.018700") "]}");
    assert_int_equal(market_read(&markets, path, MARKET_PRODUCT, NULL), 0);
    assert_int_equal(markets.skipped, 2);
    assert_int_equal(markets.points, 1);
}

static int store_visit_count(void *context, const char *type, const char *zone, const char *product,
                             struct market_point point) {
    int64_t *seen = context;
    assert_true(point.time >= seen[0] && type != NULL && zone != NULL && product != NULL);
    seen[0] = point.time;
    seen[1]++;
    return seen[1] == seen[2] ? 77 : 0;
}

TEST_WITH(a_store_keeps_prices, files_open, files_close) {
    struct market_store *store;
    struct markets markets = {0};
    struct error error = {0};
    add(&markets, "a", "z", 100, 10);
    add(&markets, "a", "z", 200, 20);
    add(&markets, "b", "z", 150, 15);
    markets_finish(&markets);
    assert_int_equal(market_store_open(&store, "store.db", &error), 0);
    assert_int_equal(market_store_append(store, &markets, &error), 0);
    assert_int_equal(market_store_append(store, &markets, &error), 0); /* appending the same points again adds none */
    market_store_close(store);
    markets_close(&markets);
    add(&markets, "a", "z", 200, 21);
    add(&markets, "a", "z", 300, 30);
    assert_int_equal(market_store_open(&store, "store.db", &error), 0);
    assert_int_equal(market_store_append(store, &markets, &error), 0);
    markets_close(&markets);
    static const int64_t expected[][2] = {{99, PRICE_UNKNOWN}, {100, 10}, {199, 10}, {200, 21}, {300, 30}, {9999, 30}};
    assert_int_equal(market_store_load(store, 0, &markets, &error), 0);
    markets_finish(&markets);
    const struct market *market = find_market(&markets, "a", "z", MARKET_PRODUCT);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(market_price(market, expected[i][0]), expected[i][1]);
    }
    markets_close(&markets);
    int64_t seen[3] = {0, 0, -1};
    assert_int_equal(market_store_iterate(store, 0, 1000, store_visit_count, seen, &error), 0);
    assert_int_equal(seen[1], 4);
    int64_t stopped[3] = {0, 0, 2};
    assert_int_equal(market_store_iterate(store, 0, 1000, store_visit_count, stopped, &error), 77);
    assert_int_equal(market_store_load(store, 250, &markets, &error), 0);
    markets_finish(&markets);
    assert_int_equal(markets.points, 3); /* a at 200 and 300, b at 150: the prices that hold from 250 on */
    markets_close(&markets);
    market_store_close(store);
    write_text("other.db", "this is a text and not a database, long enough to be looked at as one by SQLite .........."
                           "....................................................................................");
    assert_int_equal(market_store_open(&store, "other.db", &error), AML_EINPUT);
}

TEST_WITH(the_catalog_knows_and_learns, files_open, files_close) {
    CLOSED_BY(catalog_close) struct catalog catalog;
    catalog_open(&catalog, CATALOG_2016);
    const struct catalog_price *price = catalog_find(&catalog, "c4.2xlarge", "us-east-1");
    assert_non_null(price);
    assert_int_equal(price->price, 419000);
    assert_int_equal(price->vcpus, 8);
    assert_null(catalog_find(&catalog, "c4.2xlarge", "mars-1"));
    assert_true(catalog_burstable("t2.medium") && catalog_burstable("t1.micro"));
    assert_false(catalog_burstable("c4.large") || catalog_burstable("trn1.2xlarge"));
    struct error error = {0};
    assert_int_equal(
        catalog_read(&catalog,
                     write_text("types.json", "{\"z9.large\": {\"vcpus\": 3, \"memory_gib\": 1.5, \"on_demand\":"
                                              "{\"us-east-1\": 0.123456, \"a\": 1}}, \"c4.2xlarge\":"
                                              "{\"vcpus\": 8, \"memory_gib\": 15, \"on_demand\":"
                                              "{\"us-east-1\": 0.4}}}"),
                     &error),
        0);
    assert_int_equal(catalog_find(&catalog, "z9.large", "us-east-1")->price, 123456);
    assert_int_equal(catalog_find(&catalog, "z9.large", "a")->memory_mib, 1536);
    assert_int_equal(catalog_find(&catalog, "c4.2xlarge", "us-east-1")->price, 400000);
    assert_int_equal(catalog_find(&catalog, "m3.large", "us-east-1")->price, 133000);
    static const char *const wrong[][2] = {
        {"[]", ": expected an object of instance types"},
        {"{\n\"a\": ", ":2: unexpected token near end of file"},
        {"{\"a\": {\"vcpus\": 0}}", ": a: vcpus: expected a whole number from 1 to 100000"},
        {"{\"a\": {\"vcpus\": 1, \"memory_gib\": \"x\"}}", ": a: memory_gib: expected a number above 0, at most 1e6"},
        {"{\"a\": {\"vcpus\": 1, \"memory_gib\": 1, \"on_demand\": {\"r\": -1}}}",
         ": a: on_demand of 'r': expected dollars per hour above 0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *path = write_text("wrong.json", wrong[i][0]);
        error.code = 0;
        assert_int_equal(catalog_read(&catalog, path, &error), AML_EINPUT);
        assert_string_equal(error.text + strlen(path), wrong[i][1]);
    }
}

static void check_set(const char *data, const char *name, const char *product, size_t markets_wanted, uint64_t points) {
    char path[512];
    CLOSED_BY(markets_close) struct markets markets = {0};
    struct error error = {0};
    snprintf(path, sizeof path, "%s/%s", data, name);
    if (market_read(&markets, path, product, &error) != 0) {
        fail_msg("%s", error.text);
    }
    markets_finish(&markets);
    assert_int_equal(markets.points + markets.skipped, points);
    assert_int_equal(markets.count, markets_wanted);
}

/* The number of rows is that in each set's SOURCE.md. */
TEST(the_shared_sets_are_read_whole) {
    char data[400];
    const char *source = getenv("PROTEUS_SOURCE");
    snprintf(data, sizeof data, "%s/../shared/data", source == NULL ? "." : source);
    if (access(data, R_OK) != 0) {
        print_message("skipped: %s is not there\n", data);
        skip();
    }
    check_set(data, "spot-2010-2011-us", NULL, 18, 110789);
    check_set(data, "spot-2010-regions", NULL, 16, 7568);
    check_set(data, "spot-2015-us-east-1", NULL, 10, 184451);
    check_set(data, "spot-2016-us-east-1", NULL, 32, 269359);
    check_set(data, "spot-2016-eu-ap", NULL, 11, 32539);
    check_set(data, "spot-2020-sa-east-1-q1", NULL, 1628, 209965);
    check_set(data, "spot-2021-us-east-1", NULL, 488, 110324);
    check_set(data, "spot-2022-snapshot", NULL, 32815, 33362);
}
