// agileml.h from C++: it compiles as C++11, and its functions link.
#include <agileml.h>

#include <cstdio>
#include <cstring>

static int read_nothing(aml_worker *worker, void *) {
    return aml_error(worker, AML_EINPUT, "nothing to read");
}

static int clock_nothing(aml_worker *, const void *, std::size_t, void *) {
    return 0;
}

int main() {
    aml_table table = {};
    table.name = "t";
    table.width = 1;
    aml_app app = {};
    app.name = "cpp";
    app.tables = &table;
    app.table_count = 1;
    app.item_bytes = sizeof(float);
    app.read = read_nothing;
    app.clock = clock_nothing;
    char program[] = "cpp";
    char check[] = "--check";
    char unknown[] = "--no-such-option";
    char *good[] = {program, check, nullptr};
    char *bad[] = {program, unknown, nullptr};
    int status = aml_main(&app, 2, good);
    int refused = aml_main(&app, 2, bad);
    std::printf("--check: %d, an unknown option: %d\n", status, refused);
    return status == 0 && refused == 2 ? 0 : 1;
}
