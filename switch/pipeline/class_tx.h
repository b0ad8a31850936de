// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#pragma once

namespace weft::pipeline {

/// A PortTx whose device has a transmit queue for each class queue and stops these itself when its peer pauses them
/// (PFC in hardware). transmit() then takes or leaves packets of each class queue by themselves: those that it leaves
/// stand at the end of the array in their order, whatever was between them, and hold no other class back.
class ClassTx {
 public:
  virtual ~ClassTx() = default;
  /// False: transmit() is as of any other device. Does not change once the device is open.
  [[nodiscard]] virtual bool by_class() const noexcept = 0;
};

}  // namespace weft::pipeline
