// A program with a loop of its own turns a call step by step: no callback into it, and no thread is held meanwhile.
#include <callweir.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static void must(callweir_error *error) {
    callweir_string text;
    if (!error) return;
    if (!callweir_error_message(error, &text)) fprintf(stderr, "%s\n", text.data);
    exit(1);
}

// What the program does for a stepped callback; here both answer with what they got.
static void run(const callweir_step *step) {
    callweir_value *value;
    printf("run: %s\n", step->stage == CALLWEIR_STAGE_WORK ? "the work" : "a request intercept");
    must(callweir_request_value(step->request, &value));
    must(callweir_request_answer(step->request, value));
    callweir_value_free(value);
}

int main(void) {
    callweir_runtime *runtime;
    callweir_host *host;
    must(callweir_runtime_default(CALLWEIR_ABI_VERSION, &runtime));
    must(callweir_host_new(&host));
    callweir_callback stepped = {CALLWEIR_STEPPED, NULL, NULL, NULL, host};
    must(callweir_register(runtime, CALLWEIR_TOOL_REQUEST, callweir_str("look"), &stepped, NULL));

    callweir_value *arguments;
    callweir_task *call;
    must(callweir_value_json(callweir_str("{\"amount\":40}"), &arguments));
    must(callweir_execute(runtime, callweir_str("pay"), arguments, &stepped, NULL, &call));
    must(callweir_task_notify(call, host, 1));
    callweir_step step;
    for (;;) {
        must(callweir_task_step(call, &step));
        if (step.action == CALLWEIR_RUN) {
            run(&step);
        } else if (step.action == CALLWEIR_WAIT) {
            struct pollfd ready = {callweir_host_fd(host), POLLIN, 0};
            poll(&ready, 1, -1);
            while (callweir_host_take(host, &step)) {
                if (step.action == CALLWEIR_RUN) run(&step);
            }
        } else {
            break;
        }
    }
    must(step.error);
    callweir_string text;
    must(callweir_value_text(step.value, &text));
    printf("result: %s\n", text.data);
    callweir_string_free(text);
    callweir_value_free(step.value);
    callweir_value_free(arguments);
    callweir_task_free(call);
    must(callweir_shutdown(runtime, NULL, 5000, NULL));
    callweir_host_free(host);
    callweir_runtime_free(runtime);
    return 0;
}
