// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// inc-manager-bench: how fast the manager of in-network collectives answers, see README.md.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "bench/inc-manager/load.h"

int main(int argc, char** argv) {
  weft::inc::manager_bench::LoadOptions o;
  CLI::App app("Speed of weft-inc-manager.");
  app.require_subcommand(1);
  auto* load = app.add_subcommand("load", "Groups at a rate, with the agents of a thousand switches");
  load->add_option("--rate", o.rate, "Groups a second")->check(CLI::Range(1.0, 10'000.0))->capture_default_str();
  load->add_option("--seconds", o.seconds, "For so long")->check(CLI::Range(1.0, 3600.0))->capture_default_str();
  load->add_option("--hold-s", o.hold_s, "What a group lasts")->check(CLI::Range(0.1, 3600.0))->capture_default_str();
  load->add_option("--hosts", o.hosts, "Of a group")->check(CLI::Range(2u, 64u))->capture_default_str();
  load->add_flag("--scattered", o.scattered, "Hosts from everywhere, not next to each other");
  load->add_option("--pods", o.pods, "Of the network")->check(CLI::Range(1u, 64u))->capture_default_str();
  load->add_option("--half", o.half, "Switches of a pod's tier; hosts of a leaf")
      ->check(CLI::Range(1u, 32u))
      ->capture_default_str();
  load->add_option("--probe-ms", o.probe_ms, "Of the manager")->capture_default_str();
  load->add_option("--lease-ms", o.lease_ms, "Of the manager")->capture_default_str();
  load->add_option("--threads", o.threads, "Calls at the same time")
      ->check(CLI::Range(1u, 256u))
      ->capture_default_str();
  load->add_option("--processes", o.processes, "Of agents")->check(CLI::Range(1u, 64u))->capture_default_str();
  load->add_option("--store", o.store, "Path of the manager's database; default: in a temporary folder");
  auto* placement = app.add_subcommand("placement", "10,000 groups on a fat tree of k = 32, without switches and disk");
  CLI11_PARSE(app, argc, argv);
  try {
    return placement->parsed() ? weft::inc::manager_bench::run_placement() : weft::inc::manager_bench::run_load(o);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "inc-manager-bench: %s\n", error.what());
    return 1;
  }
}
