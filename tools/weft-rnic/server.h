// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The server's side of all tests: takes connections and answers, each as its client asks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tools/weft-rnic/greeting.h"
#include "tools/weft-rnic/session.h"

namespace weft::rnic_tool {

/// One RNIC's.
class Server {
 public:
  Server(Session& session, nic::Device& device, const Options& options);

  /// To be called after each Host::run_once().
  void work();
  [[nodiscard]] std::uint64_t finished() const noexcept { return finished_; }
  [[nodiscard]] std::size_t active() const noexcept { return clients_.size(); }
  [[nodiscard]] std::uint64_t received_bytes() const noexcept;

 private:
  struct Client {
    Command test = Command::write_bw;
    std::uint32_t size = 0;
    Hello hello{};
    nic::Qp* qp = nullptr;
    nic::Cq* cq = nullptr;
    std::vector<std::uint8_t> memory;  ///< data, then Statistics
    nic::Mr mr{};
    nic::Mr window{};                  ///< verify
    std::uint32_t invalidations = 0;   ///< verify
    std::uint32_t hashes = 0;          ///< verify
    std::uint64_t hash = 0;            ///< verify
    std::uint32_t last_immediate = 0;  ///< verify
    std::uint8_t awaited = 1;          ///< write_lat: the value of the next ping
    bool ended = false;
    std::uint64_t receives = 0;
  };

  void on_request(const nic::CmEvent& event);
  bool prepare(const nic::CmEvent& event, const Hello& hello, Client& c);
  void serve(Client& c);
  void repost(Client& c, std::uint64_t slot);
  void answer_ping(Client& c);
  void open_window(Client& c);
  void note_received(Client& c, const nic::Wc& wc);
  void publish(Client& c);
  void report(const Client& c);
  void remove(nic::CmId id);

  Session& session_;
  nic::Device& device_;
  const Options& options_;
  std::map<nic::CmId, std::unique_ptr<Client>> clients_;
  std::uint64_t finished_ = 0;
  std::uint64_t bytes_of_finished_ = 0;
};

/// Runs a server until it has done its work or a signal comes.
int run_server(Options options);

}  // namespace weft::rnic_tool
