// Access to the registers in a signal frame.
#ifndef FAULT_H
#define FAULT_H
#include "check.h"
#include <ucontext.h>
#define REG(context, name) (((ucontext_t *)(context))->uc_mcontext.gregs[REG_##name])
#endif
