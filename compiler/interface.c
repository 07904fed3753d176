/* SPDX-License-Identifier: Apache-2.0 */
/* interface.c: the public interface of the compiler (ouro_compiler.h). */
#include "compiler/compiler.h"
#include "runtime/session.h"

/* The compile that the options ask for, with its files. */
static base_status compile_asked(const ouro_compile_options *options, compile_result *result,
                                 base_report *report) {
    ouro_compile_options chosen = *options;
    double ratio;
    *result = (compile_result){0};
    base_status status = compile_within_time(&chosen, &ratio, report);
    if (status == BASE_OK) status = compile_model(&chosen, result, report);
    result->measured_ratio = ratio;
    return status == BASE_OK ? compile_emit(result, options, report) : status;
}

ouro_status ouro_compile(const ouro_compile_options *options, ouro_error *error) {
    base_report report = {0};
    compile_result result;
    base_status status = compile_asked(options, &result, &report);
    compile_result_free(&result);
    return status == BASE_OK ? OURO_OK : rt_error_set(error, &report);
}

ouro_status ouro_compile_plan(const ouro_compile_options *options, ouro_plan **made, ouro_error *error) {
    base_report report = {0};
    compile_result result;
    *made = NULL;
    base_status status = compile_asked(options, &result, &report);
    if (status == BASE_OK) {
        *made = rt_plan_new(&result.plan);
        result.plan = (plan){0};
        if (!*made) status = base_fail_memory(&report);
    }
    compile_result_free(&result);
    return status == BASE_OK ? OURO_OK : rt_error_set(error, &report);
}
