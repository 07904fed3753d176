/* SPDX-License-Identifier: Apache-2.0 */
/* inspect_session.c: what a program needs that opens a plan and makes a session; measured by doing so. */
#include "compiler/command/inspect.h"
#include "compiler/command/command.h"
#include "runtime/session.h"

bool command_inspect_blocks(const plan *of, inspect_blocks *blocks) {
    ouro_plan *opened;
    *blocks = (inspect_blocks){0};
    if (ouro_plan_open(of->base, of->bytes, &opened, NULL) != OURO_OK) return false;
    const bool measured = ouro_plan_bytes(opened, &blocks->plan, NULL) == OURO_OK &&
                          ouro_session_bytes(opened, NULL, &blocks->session, NULL) == OURO_OK;
    ouro_plan_free(opened);
    return measured;
}
