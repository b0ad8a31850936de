// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/process_libraries.h"

#include <dirent.h>

#include <fstream>
#include <utility>
#include <vector>

namespace weft::agent {
namespace {

// The numbers of all processes there are.
std::vector<std::string> processes(const std::string& proc) {
  std::vector<std::string> found;
  DIR* const all = opendir(proc.c_str());
  if (all == nullptr) return found;
  while (const dirent* entry = readdir(all)) {
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') found.emplace_back(entry->d_name);
  }
  closedir(all);
  return found;
}

}  // namespace

bool ProcessLibraries::has_changed(const std::string& process) {
  std::ifstream statm(proc_ + "/" + process + "/statm");
  std::string size;
  // One that cannot be read has ended. The kernel's own threads have no memory.
  if (!(statm >> size) || size == "0") return false;
  return std::exchange(sizes_[process], size) != size;
}

void ProcessLibraries::add_libraries(const std::string& process, std::set<std::string>& found) const {
  const std::string folder = proc_ + "/" + process;
  std::ifstream maps(folder + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path != std::string::npos && line.find(name_, path) != std::string::npos) {
      found.insert(folder + "/root" + line.substr(path));
    }
  }
}

std::set<std::string> ProcessLibraries::look() {
  if (looks_++ % kWholeLook == 0) sizes_.clear();
  std::set<std::string> found;
  for (const std::string& process : processes(proc_)) {
    if (has_changed(process)) add_libraries(process, found);
  }
  return found;
}

}  // namespace weft::agent
