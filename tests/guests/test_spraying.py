#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""What spraying does to go-back-N: conf/labs/soft-roce.yaml, shorter, by weft-lab. rdma_rxe sends nothing twice with
ecmp; over two unequal paths it asks for what is only late, and sends nearly all of it again and again, also where
nack_filter stops some of the requests. (perftest names its queue pairs over TCP, where no switch reads: the filter has
to infer which belong together.)"""
import unittest

import judge
import lab_run

VARIANTS = ("ecmp", "psn", "psn + nack_filter")
SECONDS = 5


def shorter(lab):
    lab["workload"]["duration_s"] = SECONDS
    lab["timing"]["probes"] = 20
    lab["variants"] = [variant for variant in lab["variants"] if variant["name"] in VARIANTS]


class Spraying(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        found = lab_run.variants("soft-roce.yaml", shorter, 400)
        cls.summary = {name: variant["summary"] for name, variant in found.items()}
        cls.filter = {name: variant["nack_filter"] for name, variant in found.items()}

    def test_all_variants_ran_and_the_switches_lost_nothing(self):
        self.assertEqual(tuple(self.summary), VARIANTS)
        self.assertEqual([each["drops"] for each in self.summary.values()], [0] * len(VARIANTS))

    def test_with_ecmp_one_path_is_used_and_the_receiver_asks_for_nothing(self):
        # A guest that gets no CPU for half a second repeats what nobody lost: repetitions are not counted here.
        ecmp = self.summary["ecmp"]
        self.assertEqual((ecmp["paths_used"], ecmp["nacks_sent"]), (1, 0))

    def test_spraying_takes_both_paths_and_go_back_n_pays_for_it(self):
        for name in VARIANTS[1:]:
            sprayed = self.summary[name]
            self.assertEqual(sprayed["paths_used"], 2, name)
            self.assertGreater(sprayed["nacks_sent"], 0, name)
            self.assertGreater(sprayed["retransmit_percent"], 30, name)
            self.assertLess(sprayed["gbps"], self.summary["ecmp"]["gbps"] / 4, name)

    def test_the_filter_judges_the_naks_of_linux_once_it_knows_the_pair(self):
        rows = self.filter["psn + nack_filter"]
        seen, judged, unknown = (sum(row[key] for row in rows for key in keys)
                                 for keys in (("seen",), ("valid", "blocked"), ("unknown",)))
        self.assertGreater(judged, 0)
        # The pair is known for good once it is, and go-back-N goes on asking.
        self.assertGreater(judged, unknown)
        self.assertEqual(seen, judged + unknown)
        self.assertEqual(seen, self.summary["psn + nack_filter"]["nacks_sent"])


if __name__ == "__main__":
    judge.main()
