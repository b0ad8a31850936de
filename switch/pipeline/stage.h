// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The interface that every pluggable stage implements, and how a stage type describes itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "switch/base/counters.h"
#include "switch/config/schema/schema.h"
#include "switch/pipeline/context.h"
#include "switch/pipeline/counter_info.h"
#include "switch/pipeline/links.h"
#include "switch/pipeline/owner_table.h"
#include "switch/pipeline/port_map.h"
#include "switch/pipeline/stage_command.h"
#include "switch/pipeline/steer.h"
#include "switch/pipeline/switch_info.h"

namespace weft::pipeline {

/// How a replaced stage or its shared state relates to the one that takes its place.
struct Adoption {
  const PortMap& ports;  ///< what its ports are called now
  bool same_options;     ///< the options of the stage did not change
};

/// Ports that lead to the same places, over which packets are spread.
struct PathSet {
  std::string name;  ///< for messages: "the group of 10.0.0.0/16"
  std::vector<PortIndex> ports;
};

/// State that all workers' instances of a stage share within one switch (a forwarding table that any core may learn
/// into). Its owner is the switch; what it promises about concurrent use is its own business, without locks on the
/// packet path.
class StageShared {
 public:
  virtual ~StageShared() = default;

  /// Housekeeping off the packet path (ageing, table rebuilds), called by the control thread about once a second.
  virtual void housekeeping(TimeNs /*now*/) {}

  /// The link of a port went up or down. Called by the control thread.
  virtual void on_link(PortIndex /*port*/, bool /*up*/) {}

  /// Packets of another size fit through a port from now on (SwitchState::set_mtu()). Called by the control thread.
  virtual void on_mtu(PortIndex /*port*/, std::uint32_t /*mtu_bytes*/) {}

  /// The path sets that this stage sends packets over, or gets them by, now. Called by the control thread at any time.
  [[nodiscard]] virtual std::vector<PathSet> path_sets() const { return {}; }

  /// A reload puts this in the place of `old`, which was made by the same type. Takes over what was learned and still
  /// holds. All workers stand still: whatever takes long belongs into make_shared (StageBuild::previous).
  virtual void adopt(StageShared& /*old*/, const Adoption& /*adoption*/) {}

  /// Names of the tables that rows() can list, as in `weftctl show TABLE`.
  [[nodiscard]] virtual std::vector<std::string_view> tables() const { return {}; }

  /// Up to `max` rows (JSON objects with equal keys) from `cursor` on; sets cursor to where to go on, or to kEnd.
  /// Called by the control thread at any time.
  [[nodiscard]] virtual nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                                    std::size_t max) const;

  static constexpr std::uint64_t kEnd = ~std::uint64_t{0};

  /// What publish() has offered under this type; nullptr when nothing was.
  [[nodiscard]] void* offered(std::type_index type) const noexcept {
    for (const auto& [offered_type, what] : offered_) {
      if (offered_type == type) return what;
    }
    return nullptr;
  }

 protected:
  /// Offers an interface to later stages and to the control plane, which find it by its type: StageBuild::capability().
  /// For the constructor. `what` lives as long as this.
  template <typename T>
  void publish(T& what) {
    offered_.emplace_back(std::type_index(typeid(T)), &what);
  }

 private:
  std::vector<std::pair<std::type_index, void*>> offered_;
};

/// One instance per worker and switch. Both halves get bursts; neither may block, allocate from the heap, log, or
/// ask for time. Instances count in themselves for every burst, so that each has its lines of the caches to itself.
class alignas(64) Stage {
 public:
  virtual ~Stage() = default;

  /// Before admission. Sets out_port, takes packets out of the batch, or leaves them alone.
  virtual void ingress(Context& /*context*/, Batch& /*batch*/) {}

  /// After the egress queue, just before transmission. All packets of the batch leave through `port`.
  virtual void egress(Context& /*context*/, PortIndex /*port*/, Batch& /*batch*/) {}

  /// How many timers an instance has, the same for all of a type: they are numbered from 0, and the number is the token
  /// of Context::at() and on_timer().
  [[nodiscard]] virtual std::uint32_t timers() const { return 1; }
  /// When a timer is wanted by the state that the instance has; kNever if not at all. Asked only where the state came
  /// another way than by a call with a Context: once at the beginning, and after adopt(), update, flush(), on_links(),
  /// `set` and commands. In all other calls the instance itself says what has changed, by Context::at().
  [[nodiscard]] virtual TimeNs deadline(std::uint32_t /*token*/) const { return kNever; }
  /// The time that was asked for has come; the timer is off until it is asked for again.
  virtual void on_timer(Context& /*context*/, std::uint32_t /*token*/) {}

  /// Other threads may leave something that this worker is to look at (messages, frames, a new table). Asked when the
  /// instance is put into a pipeline, and after adopt() and update.
  [[nodiscard]] virtual bool takes_mail() const { return false; }
  /// They have. Asked between bursts and before the worker sleeps, and only of those that take mail; on_mail() follows
  /// when it is so.
  [[nodiscard]] virtual bool has_mail() const { return false; }
  virtual void on_mail(Context& /*context*/) {}

  /// Links of the switch, or what is excluded from its path sets, have changed since the last call. An instance begins
  /// with all links up and nothing excluded.
  virtual void on_links(Context& /*context*/) {}

  /// A packet was dropped at or after admission, on the worker that owns its egress port; one that an earlier stage
  /// sent past this one is reported too. Only called when StageType::wants_drops; the packet is freed right after. Not
  /// reported: what a device refuses (tx_failed), and packets sent from within on_drop() itself.
  virtual void on_drop(Context& /*context*/, const rte_mbuf* /*packet*/, DropReason /*reason*/) {}

  /// Packets that this instance holds at the moment.
  [[nodiscard]] virtual std::size_t held() const { return 0; }

  /// Calls `use` with every held packet for which Context::charge() took room. A reload makes a new packet memory, and
  /// charges them to it before any instance is told: adopt() and flush() release from the new one. Who renames the
  /// in_port of such a packet in adopt() releases it before and charges it again.
  virtual void for_each_charged(const std::function<void(rte_mbuf*)>& /*use*/) const {}

  /// Gives every held packet back with context.drop(..., DropReason::shutdown) or resume(), without waiting.
  virtual void flush(Context& /*context*/) {}

  /// A reload puts this in the place of `old`, of the same type and worker, which stands still; shared state has been
  /// adopted before. Takes over state and held packets: renames their ports, drops as `port_removed` those that cannot
  /// go on. What `old` still holds afterwards is flushed. Counters are carried over by the pipeline.
  virtual void adopt(Context& /*context*/, Stage& /*old*/, const Adoption& /*adoption*/) {}

  /// This instance's counters, in the order of StageType::counters. Read by other threads while it runs.
  [[nodiscard]] virtual std::span<const Counter> counters() const { return {}; }

  /// Tables of this instance's own state; as in StageShared, but called on the worker that runs the instance, between
  /// bursts, so `max` is small.
  [[nodiscard]] virtual std::vector<std::string_view> tables() const { return {}; }
  [[nodiscard]] virtual nlohmann::ordered_json rows(std::string_view table, std::uint64_t& cursor,
                                                    std::size_t max) const;
};

/// What a stage is built from. `options` was validated against StageType::options and has all defaults filled in.
struct StageBuild {
  const config::Value& options;
  const SwitchInfo& info;
  std::uint16_t worker;
  std::uint16_t workers;
  /// Searches what the stages of this pipeline offer, this one's own shared state included; nullptr when none does.
  std::function<void*(std::type_index)> find_offered{};
  /// Where a stage publishes queue pairs with `steer: qp`: `owners` then, nullptr otherwise.
  OwnerTable* steer_table = nullptr;
  /// make_shared during a reload: the shared state whose place the new one will take, still in use; nullptr otherwise.
  const StageShared* previous = nullptr;
  /// Of the switch; outlives the stage. nullptr in tests of a stage alone.
  const Links* links = nullptr;
  /// Which worker has which flow, of the switch; never nullptr but in tests of a stage alone.
  OwnerTable* owners = nullptr;

  /// An interface that the shared state of this stage or of an earlier one has published; nullptr when none has.
  template <typename T>
  [[nodiscard]] T* find_capability() const {
    return find_offered ? static_cast<T*>(find_offered(typeid(T))) : nullptr;
  }
  /// The same for a stage that lists T::kCapability among its needs. The loader refuses a pipeline without it, so one
  /// that is missing here is a stage that provides the word and does not publish the interface: aborts, naming it.
  template <typename T>
  [[nodiscard]] T& capability() const {
    T* found = find_capability<T>();
    if (found == nullptr) abort_without(T::kCapability);
    return *found;
  }
  /// The same with other options.
  [[nodiscard]] StageBuild with(const config::Value& other_options) const {
    return {other_options, info, worker, workers, find_offered, steer_table, previous, links, owners};
  }

 private:
  [[noreturn]] static void abort_without(std::string_view capability);
};

/// Options that change while a switch runs, or why they cannot.
struct OptionChange {
  std::string error{};  ///< empty when all is well: a sentence that names what is wrong, and what may have been meant
  std::string done{};   ///< what changes, in a few words
  config::Value options{};  ///< the options afterwards
  /// By worker: makes the change in its instance, on the worker and between two bursts, without allocating.
  std::vector<std::function<void(Stage&)>> apply{};
  /// Instead: new instances take the places of all of the stage, and adopt() what those know. Only for stages that hold
  /// no packets.
  bool remake = false;
};

/// Where a stage stands, seen from another one.
struct StageOrder {
  std::string stage;      ///< the other one's name
  std::string why{};      ///< ends the message: "it judges NACKs before they are forwarded"
  bool required = false;  ///< the other one must be in the pipeline; otherwise the rule says nothing without it
};

/// What the value of an option asks of the pipeline.
struct OptionOrder {
  config::Mark mark{};               ///< where the value stands
  std::string what{};                ///< begins the message: "policy psn"
  std::vector<std::string> needs{};  ///< as StageType::needs
  std::vector<StageOrder> after{};   ///< as StageType::after
  /// Stages that the pipeline must not have, wherever they stand; reported at their positions.
  std::vector<StageOrder> excludes{};
};

/// How a stage type describes itself to the registry.
struct StageType {
  std::string name;     ///< as in YAML, CLI, counters and the source file's name
  std::string summary;  ///< one sentence for --help and the schema
  bool has_ingress = true;
  bool has_egress = false;
  bool wants_drops = false;
  std::vector<std::string> needs{};     ///< capabilities that an earlier stage must provide
  std::vector<std::string> provides{};  ///< capabilities that later stages may rely on
  std::vector<StageOrder> before{};     ///< stages in front of which this one must stand
  std::vector<StageOrder> after{};      ///< stages behind which this one must stand
  /// Stages whose packets must come to this one within the burst in which they left: no stage in between may hold any.
  std::vector<StageOrder> adjacent{};
  /// May keep packets of its ingress half beyond the burst in which they came (resume() at a later time).
  bool holds_packets = false;
  /// Works on the payload of packets with vector instructions: the buffers of the process should have RoCE payloads
  /// begin on a cache line.
  bool payload_aligned = false;
  /// What the values of the options ask of the pipeline. May be empty.
  std::function<std::vector<OptionOrder>(const config::Value& options)> option_order{};
  config::Schema options;
  std::vector<CounterInfo> counters{};  ///< of Stage::counters()
  std::vector<DropBlock> drops{};       ///< reasons to drop that are not the engine's, of this and what it uses
  /// Instances depend on more than their options: a reload that changes their switch makes new ones, which adopt().
  /// False: a reload keeps the instances, with all that they know, unless the options change and update is empty.
  bool depends_on_switch = true;
  /// Options that a reload refuses to change.
  std::vector<std::string> fixed_options{};
  /// Checks that a schema cannot express; reports each with the position of the value. May be empty.
  std::function<void(const config::Value& options, const SwitchInfo& info, config::Diagnostics& diagnostics)> check{};
  /// What the words behind `weftctl set STAGE` make of the options; empty when nothing can change.
  std::function<OptionChange(const config::Value& options, const SwitchInfo& info,
                             const std::vector<std::string>& words, std::uint16_t workers)>
      set{};
  /// Verbs besides `set`, which `set` above makes one.
  std::vector<StageCommand> commands{};
  /// Called once per switch before any make(); may be empty.
  std::function<std::unique_ptr<StageShared>(const StageBuild&)> make_shared{};
  std::function<std::unique_ptr<Stage>(const StageBuild&, StageShared*)> make;
  /// Gives new options to an instance that a reload keeps, while its worker stands still; only with depends_on_switch
  /// false. May be empty.
  std::function<void(Stage&, const StageBuild&)> update{};
};

}  // namespace weft::pipeline
