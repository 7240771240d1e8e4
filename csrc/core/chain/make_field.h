// Displacement fields by the names and values that transforms give.
#pragma once

#include <string>

#include "core/chain/step.h"
#include "core/dispatch/threads.h"
#include "core/warp/fields.h"

namespace visops {

struct FieldTask {
  std::string kind;
  StepFields values;  // what the function of its kind takes
  FieldSize size;
  float* field;  // [2, height, width]; of clouds [height, width]
};

// Throws std::invalid_argument for a kind that is unknown, and for other values than it takes.
void make_field(const FieldTask& task, const Threads& threads);

}  // namespace visops
