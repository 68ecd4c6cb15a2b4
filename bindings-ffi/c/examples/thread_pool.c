// Calls that complete on a thread pool of the program's own: neither callbacks nor callers hold a thread while they wait.
#include <callweir.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 4, CALLS = 100 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static callweir_request *waiting[CALLS];
static int count, ended, failed, stopping;

static void must(callweir_error *error) {
    callweir_string text;
    if (!error) return;
    if (!callweir_error_message(error, &text)) fprintf(stderr, "%s\n", text.data);
    exit(1);
}

// The tool: puts its request on the pool's list and returns at once.
static void enqueue(void *userdata, callweir_request *request) {
    (void)userdata;
    pthread_mutex_lock(&lock);
    waiting[count++] = request;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

// A worker: answers requests, each exactly once.
static void *work(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!count && !stopping) pthread_cond_wait(&changed, &lock);
        if (!count) break;
        callweir_request *request = waiting[--count];
        pthread_mutex_unlock(&lock);
        callweir_value *value;
        must(callweir_request_value(request, &value));
        must(callweir_request_answer(request, value));
        callweir_value_free(value);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

// The end of a call, on a thread of the library's.
static void done(void *userdata, callweir_error *error, callweir_value *value) {
    (void)userdata;
    pthread_mutex_lock(&lock);
    ended++;
    failed += error != NULL;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    callweir_error_free(error);
    callweir_value_free(value);
}

int main(void) {
    callweir_runtime *runtime;
    callweir_value *arguments;
    pthread_t workers[WORKERS];
    must(callweir_runtime_default(CALLWEIR_ABI_VERSION, &runtime));
    must(callweir_value_json(callweir_str("{\"amount\":40}"), &arguments));
    for (int worker = 0; worker < WORKERS; worker++) pthread_create(&workers[worker], NULL, work, NULL);
    for (int call = 0; call < CALLS; call++) {
        callweir_callback tool = {CALLWEIR_COMPLETING, enqueue, NULL, NULL, NULL};
        callweir_completion completion = {done, NULL};
        callweir_task *task;
        must(callweir_execute(runtime, callweir_str("pay"), arguments, &tool, NULL, &task));
        must(callweir_task_start(task, completion));
        callweir_task_free(task);
    }
    pthread_mutex_lock(&lock);
    while (ended < CALLS) pthread_cond_wait(&changed, &lock);
    stopping = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int worker = 0; worker < WORKERS; worker++) pthread_join(workers[worker], NULL);
    printf("%d calls, %d failed\n", ended, failed);
    callweir_value_free(arguments);
    must(callweir_shutdown(runtime, NULL, 5000, NULL));
    callweir_runtime_free(runtime);
    return failed != 0;
}
