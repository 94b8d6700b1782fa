"""CI's share: all of `attached`, and `supervised.Ranks`, in one life of one engine and one death.

A start takes minutes on two cores, so the engine that the service has started also plays the one that
somebody else runs.
"""

import os
import unittest

import attached
import supervised


class Ci(supervised.Ranks):
    def test_1_somebody_elses_engine(self):
        os.environ["E2E_VLLM_URL"] = f"http://127.0.0.1:{self.records()[0]['port']}"
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(attached.Attached).run(result)
        for test, trace in result.failures + result.errors:
            with self.subTest(test=str(test)):
                self.fail(trace)
        self.assertGreater(result.testsRun, 5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
