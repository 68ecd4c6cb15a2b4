// Callbacks that complete later, calls with a completion, and calls that the program steps itself.
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static void nap(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void *answer_later(void *request) {
    nap(2);
    echo(NULL, request);
    return NULL;
}

static void on_a_thread(void *userdata, callweir_request *request) {
    (void)userdata;
    pthread_t thread;
    pthread_create(&thread, NULL, answer_later, request);
    pthread_detach(thread);
}

static callweir_task *execute(callweir_runtime *runtime, callweir_callback work, const callweir_call_options *options) {
    callweir_value *arguments = json("{\"n\":1}");
    callweir_task *task = NULL;
    CHECK(fine(callweir_execute(runtime, callweir_str("pay"), arguments, &work, options, &task)));
    callweir_value_free(arguments);
    return task;
}

static callweir_callback completing(function run, void *userdata) {
    callweir_callback callback = {CALLWEIR_COMPLETING, run, userdata, NULL, NULL};
    return callback;
}

static void an_answer_may_come_at_once_or_from_another_thread(void) {
    callweir_runtime *runtime = runtime_new();
    function ways[] = {echo, on_a_thread};
    for (int way = 0; way < 2; way++) {
        callweir_value *value;
        callweir_task *task = execute(runtime, completing(ways[way], NULL), NULL);
        CHECK(fine(callweir_task_run(task, &value)));
        CHECK(reads(value, "{\"n\":1}"));
        CHECK(wrong(callweir_task_run(task, &value)));
        callweir_task_free(task);
    }
    runtime_end(runtime);
}

static void answer_twice(void *userdata, callweir_request *request) {
    (void)userdata;
    echo(NULL, request);
    CHECK(wrong(callweir_request_nothing(request)));
    callweir_request_free(request);
}

static void *free_later(void *request) {
    nap(2);
    callweir_request_free(request);
    return NULL;
}

static void never(void *userdata, callweir_request *request) {
    (void)userdata;
    pthread_t thread;
    pthread_create(&thread, NULL, free_later, request);
    pthread_detach(thread);
}

static void a_second_answer_is_an_error_and_a_freed_request_fails_closed(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_value *value;
    callweir_task *task = execute(runtime, completing(answer_twice, NULL), NULL);
    CHECK(fine(callweir_task_run(task, &value)));
    CHECK(reads(value, "{\"n\":1}"));
    callweir_task_free(task);
    task = execute(runtime, completing(never, NULL), NULL);
    CHECK(fails(callweir_task_run(task, &value), CALLWEIR_ERROR_INVALID_RETURN));
    callweir_task_free(task);
    runtime_end(runtime);
}

static void keep(void *userdata, callweir_request *request) {
    *(callweir_request **)userdata = request;
}

static void call_3_a_token_releases_a_caller_whose_callback_does_not_answer(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_token *token;
    callweir_context *context;
    callweir_value *value;
    callweir_request *kept = NULL;
    CHECK(fine(callweir_token_new(&token)));
    callweir_context_options limits = {NOTHING, NULL, token, 20000, NULL};
    CHECK(fine(callweir_context_new(&limits, &context)));
    callweir_call_options options = {context, NULL, NOTHING, NOTHING};
    callweir_task *task = execute(runtime, completing(keep, &kept), &options);
    CHECK(fails(callweir_task_run(task, &value), CALLWEIR_ERROR_TIMED_OUT));
    callweir_task_free(task);
    // The call is gone: the late answer is told so, and the request is ended.
    CHECK(fails(callweir_request_nothing(kept), CALLWEIR_ERROR_EXPIRED));
    callweir_context_free(context);
    callweir_token_free(token);
    runtime_end(runtime);
}

static atomic_int done_well, done_badly;

static void done(void *userdata, callweir_error *error, callweir_value *value) {
    (void)userdata;
    if (error) done_badly++;
    else done_well++;
    callweir_error_free(error);
    callweir_value_free(value);
}

static void block(void *userdata, callweir_request *request) {
    nap(5);
    echo(userdata, request);
}

static void call_4_calls_with_a_completion_run_beside_each_other(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_completion completion = {done, NULL};
    done_well = done_badly = 0;
    for (int count = 0; count < 200; count++) {
        callweir_task *task = execute(runtime, blocking(block, NULL), NULL);
        CHECK(fine(callweir_task_start(task, completion)));
        callweir_task_free(task);
    }
    for (int wait = 0; wait < 5000 && done_well + done_badly < 200; wait++) nap(1);
    CHECK(done_well == 200 && done_badly == 0);
    runtime_end(runtime);
}

// Steps a call to its end; returns how many callbacks it ran.
static int turn(callweir_task *task, callweir_host *host, callweir_step *last) {
    int runs = 0;
    for (;;) {
        if (!fine(callweir_task_step(task, last))) return -1;
        if (last->action == CALLWEIR_RUN) {
            runs++;
            CHECK(last->userdata == &runs || last->userdata == host);
            echo(NULL, last->request);
        } else if (last->action == CALLWEIR_WAIT) {
            struct pollfd ready = {callweir_host_fd(host), POLLIN, 0};
            CHECK(poll(&ready, 1, 5000) == 1);
            callweir_step item;
            while (callweir_host_take(host, &item)) CHECK(item.action == CALLWEIR_WAKE && item.key == 42);
        } else {
            return runs;
        }
    }
}

static void a_program_may_step_its_calls_itself(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_host *host;
    CHECK(fine(callweir_host_new(&host)));
    callweir_callback stepped = {CALLWEIR_STEPPED, NULL, host, NULL, host};
    CHECK(fine(callweir_register(runtime, CALLWEIR_TOOL_REQUEST, callweir_str("r"), &stepped, NULL)));
    callweir_task *task = execute(runtime, stepped, NULL);
    CHECK(fine(callweir_task_notify(task, host, 42)));
    callweir_step last;
    CHECK(turn(task, host, &last) == 2 && last.action == CALLWEIR_DONE);
    CHECK(reads(last.value, "{\"n\":1}"));
    CHECK(wrong(callweir_task_step(task, &last)));
    callweir_task_free(task);
    // One that something else answers: the wake comes over the host.
    task = execute(runtime, completing(on_a_thread, NULL), NULL);
    CHECK(fine(callweir_task_notify(task, host, 42)));
    CHECK(turn(task, host, &last) == 1 && last.action == CALLWEIR_DONE);
    callweir_value_free(last.value);
    callweir_task_free(task);
    callweir_host_free(host);
    runtime_end(runtime);
}

static int events;
static char last_event[4096];

static void note(void *userdata, callweir_request *request) {
    (void)userdata;
    callweir_string text;
    CHECK(fine(callweir_request_event(request, &text)));
    snprintf(last_event, sizeof last_event, "%s", text.data);
    callweir_string_free(text);
    events++;
    CHECK(fine(callweir_request_nothing(request)));
}

static void call_1_a_call_dropped_half_way_ends_as_cancelled(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_host *host;
    CHECK(fine(callweir_host_new(&host)));
    callweir_callback observer = blocking(note, NULL);
    CHECK(fine(callweir_subscribe(runtime, callweir_str("notes"), &observer, NULL)));
    callweir_callback stepped = {CALLWEIR_STEPPED, NULL, host, NULL, host};
    callweir_task *task = execute(runtime, stepped, NULL);
    callweir_step step;
    CHECK(fine(callweir_task_step(task, &step)) && step.action == CALLWEIR_RUN);
    callweir_task_free(task);
    CHECK(fails(callweir_request_nothing(step.request), CALLWEIR_ERROR_EXPIRED));
    uint64_t pending = 1;
    CHECK(fine(callweir_flush(runtime, NULL, 5000, &pending)) && pending == 0);
    CHECK(events == 2 && strstr(last_event, "\"callweir.outcome\":\"cancelled\""));
    callweir_host_free(host);
    runtime_end(runtime);
}

int main(void) {
    RUN(an_answer_may_come_at_once_or_from_another_thread);
    RUN(a_second_answer_is_an_error_and_a_freed_request_fails_closed);
    RUN(call_3_a_token_releases_a_caller_whose_callback_does_not_answer);
    RUN(call_4_calls_with_a_completion_run_beside_each_other);
    RUN(a_program_may_step_its_calls_itself);
    RUN(call_1_a_call_dropped_half_way_ends_as_cancelled);
    return test_end();
}
