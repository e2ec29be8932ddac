/* Tests of agileml/net/endpoint: the endpoint that other nodes get, also by --advertise. */
#include "agileml/net/endpoint.h"
#include "tests/test.h"

TEST(a_port_is_recognized) {
    static const char *const with[] = {"host:80", "127.0.0.1:7000", "[::1]:65535"};
    static const char *const without[] = {"host", "127.0.0.1", "[::1]", "::1", "::80", "host:", "host:0", "host:65536"};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        assert_true(endpoint_host_has_port(with[i]));
    }
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        assert_false(endpoint_host_has_port(without[i]));
    }
}

TEST(what_is_advertised) {
    static const char *const cases[][2] = {
        {"127.0.0.2", "tcp://127.0.0.2:7000"},
        {"127.0.0.2:7001", "tcp://127.0.0.2:7001"},
        {"[::1]", "tcp://[::1]:7000"},
        {"[::1]:7001", "tcp://[::1]:7001"},
    };
    char text[WIRE_ENDPOINT_MAX];
    struct error error = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(endpoint_advertise(text, "tcp://0.0.0.0:7000", cases[i][0], &error), 0);
        assert_string_equal(text, cases[i][1]);
    }
    static const char *const wrong[] = {"0.0.0.0", "[::]", "::1", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:x", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(endpoint_advertise(text, "tcp://0.0.0.0:7000", wrong[i], &error), AML_EINPUT);
    }
    assert_int_equal(endpoint_advertise(text, "tcp://0.0.0.0:7000", "0.0.0.0:80", &error), AML_EINPUT);
}
