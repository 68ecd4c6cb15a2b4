// A small harness: tests run in the order of main, print one line each, and the last line counts them.
#ifndef CALLWEIR_TEST_H
#define CALLWEIR_TEST_H

#include <callweir.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int test_passed, test_failed, test_broken;

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                    \
            test_broken = 1;                                                          \
        }                                                                             \
    } while (0)

// Runs one test; handles that it leaves open fail it.
#define RUN(test)                                                                     \
    do {                                                                              \
        uint64_t handles_before = callweir_open_handles();                            \
        test_broken = 0;                                                              \
        test();                                                                       \
        CHECK(callweir_open_handles() == handles_before);                             \
        printf("%s %s\n", test_broken ? "not ok" : "ok", #test);                      \
        fflush(stdout);                                                               \
        if (test_broken) test_failed++;                                               \
        else test_passed++;                                                           \
    } while (0)

static inline int test_end(void) {
    printf("%d passed, %d failed\n", test_passed, test_failed);
    return test_failed != 0;
}

#define NOTHING callweir_str(NULL)

// Takes an error that must not be there.
static inline bool fine(callweir_error *error) {
    if (!error) return true;
    callweir_string text;
    if (!callweir_error_json(error, &text)) {
        printf("unexpected: %s\n", text.data);
        callweir_string_free(text);
    }
    callweir_error_free(error);
    return false;
}

// Takes an error that must be of this kind.
static inline bool fails(callweir_error *error, uint32_t kind) {
    if (!error) return false;
    bool right = callweir_error_is(error, kind) && callweir_error_kind(error) == kind;
    if (!right) return fine(error);
    callweir_error_free(error);
    return true;
}

static inline bool wrong(callweir_error *error) {
    return fails(error, CALLWEIR_ERROR_INVALID_ARGUMENT);
}

static inline callweir_value *json(const char *text) {
    callweir_value *value = NULL;
    CHECK(fine(callweir_value_json(callweir_str(text), &value)));
    return value;
}

// Says whether a value is this text; frees it.
static inline bool reads(callweir_value *value, const char *wanted) {
    callweir_string text;
    if (!fine(callweir_value_text(value, &text))) return false;
    callweir_value_free(value);
    bool same = strcmp(text.data, wanted) == 0;
    if (!same) printf("got %s\n", text.data);
    callweir_string_free(text);
    return same;
}

static inline callweir_runtime *runtime_new(void) {
    callweir_runtime *runtime = NULL;
    CHECK(fine(callweir_runtime_new(CALLWEIR_ABI_VERSION, NOTHING, &runtime)));
    return runtime;
}

static inline void runtime_end(callweir_runtime *runtime) {
    CHECK(fine(callweir_shutdown(runtime, NULL, 5000, NULL)));
    callweir_runtime_free(runtime);
}

typedef void (*function)(void *userdata, callweir_request *request);

static inline callweir_callback blocking(function run, void *userdata) {
    callweir_callback callback = {CALLWEIR_BLOCKING, run, userdata, NULL, NULL};
    return callback;
}

// Answers with what it was given.
static inline void echo(void *userdata, callweir_request *request) {
    (void)userdata;
    callweir_value *value;
    CHECK(fine(callweir_request_value(request, &value)));
    CHECK(fine(callweir_request_answer(request, value)));
    callweir_value_free(value);
}

// Runs the rest of the chain and answers with its result.
static inline void pass_on(void *userdata, callweir_request *request) {
    int *times = userdata;
    if (times) (*times)++;
    callweir_next *next = callweir_request_next(request);
    callweir_task *task;
    callweir_value *value;
    CHECK(fine(callweir_next_run(next, NULL, NULL, &task)));
    callweir_error *error = callweir_task_run(task, &value);
    callweir_task_free(task);
    callweir_next_free(next);
    if (error) {
        CHECK(fine(callweir_request_fail(request, error)));
        callweir_error_free(error);
    } else {
        CHECK(fine(callweir_request_answer(request, value)));
        callweir_value_free(value);
    }
}

static inline void register_entry(callweir_runtime *runtime, uint32_t family, const char *name, function run,
                                  void *userdata) {
    callweir_callback callback = blocking(run, userdata);
    CHECK(fine(callweir_register(runtime, family, callweir_str(name), &callback, NULL)));
}

// Makes and runs a call of `pay` with these arguments.
static inline callweir_error *call(callweir_runtime *runtime, const char *arguments, function work, void *userdata,
                                   const callweir_call_options *options, callweir_value **out) {
    callweir_value *value = json(arguments);
    callweir_callback callback = blocking(work, userdata);
    callweir_task *task;
    CHECK(fine(callweir_execute(runtime, callweir_str("pay"), value, &callback, options, &task)));
    callweir_value_free(value);
    callweir_error *error = callweir_task_run(task, out);
    callweir_task_free(task);
    return error;
}

#endif
