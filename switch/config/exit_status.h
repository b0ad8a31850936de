// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

namespace weft::config {

/// How programs end, for scripts. 128 and more are the shell's, for signals.
enum ExitStatus : int {
  kExitFine = 0,
  kExitFailed = 1,       ///< the other side says no, a test failed, or the output could not be written
  kExitUsage = 2,        ///< wrong arguments, or a configuration or experiment with mistakes
  kExitUnreachable = 3,  ///< of what asks others: nobody answers, or there is no way there
  kExitCannotRun = 3,    ///< of daemons and experiments: cannot start, no memory, or results that cannot be written
  kExitUnbalanced = 4,   ///< the run contradicts itself, as with packets unaccounted for
  kExitIncomplete = 5,   ///< not all transfers of an experiment ended
};

}  // namespace weft::config
