// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/weftctl/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace weft::weftctl {
namespace {

constexpr unsigned kUnknownTerminal = 100;  // columns

}  // namespace

Screen screen_of_stdout() {
  Screen screen;
  screen.terminal = isatty(STDOUT_FILENO) == 1;
  if (screen.terminal) screen.columns = kUnknownTerminal;
  winsize size{};
  if (screen.terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    screen.rows = size.ws_row;
    screen.columns = size.ws_col;
  }
  return screen;
}

}  // namespace weft::weftctl
