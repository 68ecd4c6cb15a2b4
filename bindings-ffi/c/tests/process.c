// Forks and exits.
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <sys/wait.h>
#include <unistd.h>

static int events;

static void note(void *userdata, callweir_request *request) {
    (void)userdata;
    events++;
    CHECK(fine(callweir_request_nothing(request)));
}

static void pay(callweir_runtime *runtime) {
    callweir_value *value;
    CHECK(fine(call(runtime, "{}", echo, NULL, NULL, &value)));
    callweir_value_free(value);
}

static bool delivered(callweir_runtime *runtime, int wanted) {
    uint64_t pending = 1;
    return fine(callweir_flush(runtime, NULL, 5000, &pending)) && pending == 0 && events == wanted;
}

static void door_2_a_child_of_a_fork_works_and_the_parent_goes_on(void) {
    callweir_runtime *runtime = runtime_new();
    callweir_callback observer = blocking(note, NULL);
    CHECK(fine(callweir_subscribe(runtime, callweir_str("notes"), &observer, NULL)));
    pay(runtime);
    CHECK(delivered(runtime, 2));
    for (int round = 0; round < 10; round++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            events = 0;
            pay(runtime);
            _exit(delivered(runtime, 2) && !test_broken ? 0 : 3);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    pay(runtime);
    CHECK(delivered(runtime, 4));
    runtime_end(runtime);
}

static void evt_9_an_exit_delivers_what_is_queued(void) {
    char path[] = "/tmp/callweir-test-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        callweir_runtime *runtime = runtime_new();
        CHECK(fine(callweir_export_jsonl(runtime, callweir_str(path), callweir_str("file"))));
        for (int count = 0; count < 100; count++) pay(runtime);
        exit(test_broken);
    }
    int status = 1, lines = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    FILE *written = fopen(path, "r");
    for (int letter; (letter = fgetc(written)) != EOF;) lines += letter == '\n';
    fclose(written);
    remove(path);
    CHECK(lines == 200);
}

int main(void) {
    RUN(evt_9_an_exit_delivers_what_is_queued);
    RUN(door_2_a_child_of_a_fork_works_and_the_parent_goes_on);
    return test_end();
}
