// Objects of the program as values: by reference, copied or written as JSON only for who needs it.
#include "test.h"

#include <stdatomic.h>

static atomic_int made, written, copied, freed;

// An object is the number of cents; the number itself is what travels.
static void to_json(uint64_t object, callweir_string *out, callweir_error **error) {
    char text[32];
    written++;
    snprintf(text, sizeof text, "{\"cents\":%u}", (unsigned)object);
    *error = object == 13 ? callweir_error_new(CALLWEIR_ERROR_NOT_JSON, callweir_str("$.cents: unlucky"),
                                               callweir_str("{\"path\":\"$.cents\"}"), NOTHING)
                          : callweir_string_new(callweir_str(text), out);
}

static bool copy(uint64_t object, uint64_t *out, callweir_error **error) {
    (void)error;
    copied++;
    made++;
    *out = object;
    return true;
}

static void release(uint64_t object) {
    (void)object;
    freed++;
}

static const callweir_class cents = {to_json, copy, release};
static const callweir_class others = {to_json, NULL, release};

static callweir_value *object(const callweir_class *class, uint64_t number) {
    callweir_value *value = NULL;
    made++;
    CHECK(fine(callweir_value_object(class, number, &value)));
    return value;
}

static void start(void) { made = written = copied = freed = 0; }

static callweir_error *pay(callweir_runtime *runtime, callweir_value *arguments, callweir_value **result) {
    callweir_callback work = blocking(echo, NULL);
    callweir_task *task;
    CHECK(fine(callweir_execute(runtime, callweir_str("pay"), arguments, &work, NULL, &task)));
    callweir_error *error = callweir_task_run(task, result);
    callweir_task_free(task);
    callweir_value_free(arguments);
    return error;
}

static void pay_1_objects_pass_untouched_and_unobserved_calls_write_none(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    uint64_t number = 0;
    start();
    CHECK(fine(pay(runtime, object(&cents, 7), &value)));
    CHECK(callweir_value_is_object(value, &cents, &number) && number == 7);
    CHECK(!callweir_value_is_object(value, &others, &number));
    callweir_value_free(value);
    CHECK(written == 0 && copied == 0 && freed == 1);
    runtime_end(runtime);
}

static void pay_4_a_chain_works_on_one_copy(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    start();
    register_entry(runtime, CALLWEIR_TOOL_EXECUTION, "a", pass_on, NULL);
    register_entry(runtime, CALLWEIR_TOOL_EXECUTION, "b", pass_on, NULL);
    CHECK(fine(pay(runtime, object(&cents, 7), &value)));
    callweir_value_free(value);
    CHECK(copied == 1 && written == 0 && made == 2 && freed == 2);
    CHECK(fine(pay(runtime, object(&others, 8), &value)));
    callweir_value_free(value);
    CHECK(copied == 1 && freed == 3);
    runtime_end(runtime);
}

static char seen[4096];

static void note(void *userdata, callweir_request *request) {
    (void)userdata;
    callweir_string text;
    CHECK(fine(callweir_request_event(request, &text)));
    strncat(seen, text.data, sizeof seen - strlen(seen) - 1);
    callweir_string_free(text);
    CHECK(fine(callweir_request_nothing(request)));
}

static void pay_2_what_is_not_json_fails_only_its_reader(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    callweir_callback observer = blocking(note, NULL);
    start();
    CHECK(fine(callweir_subscribe(runtime, callweir_str("notes"), &observer, NULL)));
    CHECK(fine(pay(runtime, object(&cents, 7), &value)));
    callweir_value_free(value);
    CHECK(fine(callweir_flush(runtime, NULL, 5000, NULL)));
    CHECK(strstr(seen, "\"data\":{\"cents\":7}"));
    CHECK(fine(pay(runtime, object(&cents, 13), &value)));
    callweir_string text;
    CHECK(fails(callweir_value_text(value, &text), CALLWEIR_ERROR_NOT_JSON));
    callweir_value_free(value);
    CHECK(fine(callweir_flush(runtime, NULL, 5000, NULL)));
    CHECK(strstr(seen, "\"callweir.not_json_path\":\"$.cents\""));
    CHECK(made == freed);
    runtime_end(runtime);
}

// Calls leave nothing behind: neither handles, which every test checks, nor objects.
static void memory_is_flat_over_many_calls(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    start();
    register_entry(runtime, CALLWEIR_TOOL_EXECUTION, "a", pass_on, NULL);
    for (int count = 0; count < 100000; count++) {
        CHECK(fine(pay(runtime, object(&cents, 7), &value)));
        callweir_value_free(value);
    }
    CHECK(made == freed && made == 200000);
    runtime_end(runtime);
}

int main(void) {
    RUN(pay_1_objects_pass_untouched_and_unobserved_calls_write_none);
    RUN(pay_4_a_chain_works_on_one_copy);
    RUN(pay_2_what_is_not_json_fails_only_its_reader);
    RUN(memory_is_flat_over_many_calls);
    return test_end();
}
