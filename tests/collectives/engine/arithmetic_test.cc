// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/engine/arithmetic.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace weft::inc {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes out(values.size() * sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// The result of contributions of several hosts, as a switch makes it.
Bytes reduce(const Arithmetic& how, const std::vector<Bytes>& contributions) {
  const std::size_t elements = contributions.front().size() / how.element_bytes;
  Bytes slot(elements * how.accumulator_bytes);
  how.load(slot.data(), contributions.front().data(), elements);
  for (std::size_t i = 1; i < contributions.size(); ++i) how.combine(slot.data(), contributions[i].data(), elements);
  Bytes out(contributions.front().size());
  how.store(out.data(), slot.data(), elements);
  return out;
}

template <class T>
T reduce_two(DataType type, Op op, T a, T b, Overflow overflow = Overflow::wrap) {
  return values_of<T>(reduce(*arithmetic(type, op, overflow), {bytes_of<T>({a}), bytes_of<T>({b})}))[0];
}

// An independent idea of what each operation gives: integers in 128 bits.
template <class T>
T expected(Op op, T a, T b, Overflow overflow) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = __int128;
    Wide wide = 0;
    switch (op) {
      case Op::sum:
        wide = static_cast<Wide>(a) + b;
        break;
      case Op::prod:
        if constexpr (std::is_same_v<T, std::uint64_t>) {
          // Does not fit into a signed 128-bit number.
          const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
          const auto most = std::numeric_limits<T>::max();
          return overflow == Overflow::saturate && product > most ? most : static_cast<T>(product);
        }
        wide = static_cast<Wide>(a) * b;
        break;
      case Op::min:
        return std::min(a, b);
      case Op::max:
        return std::max(a, b);
      case Op::band:
        return static_cast<T>(a & b);
      case Op::bor:
        return static_cast<T>(a | b);
      case Op::bxor:
        return static_cast<T>(a ^ b);
    }
    if (overflow == Overflow::saturate) {
      wide = std::max<Wide>(wide, std::numeric_limits<T>::min());
      wide = std::min<Wide>(wide, std::numeric_limits<T>::max());
    }
    return static_cast<T>(wide);
  } else {
    switch (op) {
      case Op::sum:
        return a + b;
      case Op::prod:
        return a * b;
      case Op::min:
        return a < b ? a : b;
      default:
        return a > b ? a : b;
    }
  }
}

template <class T>
std::vector<T> interesting(std::mt19937_64& random, std::size_t count) {
  std::vector<T> out;
  const std::vector<T> edges{std::numeric_limits<T>::min(),
                             std::numeric_limits<T>::max(),
                             std::numeric_limits<T>::lowest(),
                             T{0},
                             T{1},
                             static_cast<T>(std::numeric_limits<T>::max() / 2 + 1)};
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random();
    if (bits % 4 == 0) {
      out.push_back(edges[bits / 4 % edges.size()]);
    } else if constexpr (std::is_integral_v<T>) {
      out.push_back(static_cast<T>(bits >> (random() % 64)));
    } else {
      out.push_back(std::ldexp(static_cast<T>(static_cast<std::int32_t>(bits)), static_cast<int>(bits >> 32) % 40));
    }
  }
  return out;
}

template <class T>
void check_type(DataType type) {
  ASSERT_EQ(element_bytes(type), sizeof(T));
  std::mt19937_64 random(7);
  for (const Overflow overflow : {Overflow::wrap, Overflow::saturate}) {
    for (std::size_t op = 0; op < kOps; ++op) {
      const auto* const how = arithmetic(type, static_cast<Op>(op), overflow);
      const bool bitwise = op >= static_cast<std::size_t>(Op::band);
      ASSERT_EQ(how != nullptr, !bitwise || std::is_integral_v<T>) << to_string(type) << op;
      if (how == nullptr) continue;
      for (std::size_t n = 0; n < 70; ++n) {
        const auto a = interesting<T>(random, n);
        const auto b = interesting<T>(random, n);
        const auto got = values_of<T>(reduce(*how, {bytes_of(a), bytes_of(b)}));
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(got[i], expected(static_cast<Op>(op), a[i], b[i], overflow))
              << to_string(type) << ' ' << to_string(static_cast<Op>(op)) << ' ' << +a[i] << ' ' << +b[i];
        }
      }
    }
  }
}

TEST(Arithmetic, GivesForEveryIntegerTypeWhatALoopInWiderNumbersGives) {
  check_type<std::int8_t>(DataType::int8);
  check_type<std::int16_t>(DataType::int16);
  check_type<std::int32_t>(DataType::int32);
  check_type<std::int64_t>(DataType::int64);
  check_type<std::uint8_t>(DataType::uint8);
  check_type<std::uint16_t>(DataType::uint16);
  check_type<std::uint32_t>(DataType::uint32);
  check_type<std::uint64_t>(DataType::uint64);
}

TEST(Arithmetic, GivesForFloatsWhatTheHostsLoopGives) {
  check_type<float>(DataType::fp32);
  check_type<double>(DataType::fp64);
}

TEST(Arithmetic, MinAndMaxTreatNoNumberAsMpisLoopDoes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(reduce_two(DataType::fp32, Op::max, 1.0F, nan)));
  EXPECT_EQ(reduce_two(DataType::fp32, Op::max, nan, 1.0F), 1.0F);
  EXPECT_TRUE(std::isnan(reduce_two(DataType::fp32, Op::min, 1.0F, nan)));
  EXPECT_EQ(reduce_two(DataType::fp32, Op::min, nan, 1.0F), 1.0F);
  EXPECT_TRUE(std::isnan(reduce_two(DataType::fp32, Op::sum, nan, 1.0F)));
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(reduce_two(DataType::fp32, Op::sum, inf, 1.0F), inf);
  EXPECT_TRUE(std::isnan(reduce_two(DataType::fp32, Op::sum, inf, -inf)));
}

// IEEE 754 binary16 by its definition, for finite numbers.
double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 0x3ff;
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

void check_halves(const Arithmetic& how) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const Bytes wire = bytes_of(all);
  Bytes slot(all.size() * sizeof(float));
  how.load(slot.data(), wire.data(), all.size());
  const auto wide = values_of<float>(slot);
  Bytes back(wire.size());
  how.store(back.data(), slot.data(), all.size());
  const auto again = values_of<std::uint16_t>(back);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto bits = all[i];
    if ((bits & 0x7fff) > 0x7c00) {
      ASSERT_TRUE(std::isnan(wide[i])) << i;
      ASSERT_EQ(again[i], bits | 0x200) << i;  // quiet
    } else if ((bits & 0x7fff) == 0x7c00) {
      ASSERT_TRUE(std::isinf(wide[i]) && std::signbit(wide[i]) == ((bits & 0x8000) != 0)) << i;
      ASSERT_EQ(again[i], bits);
    } else {
      ASSERT_EQ(wide[i], half_value(bits)) << i;
      ASSERT_EQ(again[i], bits);
    }
  }
}

TEST(Arithmetic, EveryHalfIsWidenedAndComesBack) {
  check_halves(*arithmetic(DataType::fp16, Op::sum));
  check_halves(*baseline_arithmetic(DataType::fp16, Op::sum));
}

// The nearest half of a finite float, found among all of them; of two that are as near, the even one.
std::uint16_t nearest_half(float x) {
  if (std::fabs(x) >= 65520.0F) return x < 0 ? 0xfc00 : 0x7c00;
  std::uint16_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (std::uint16_t bits = 0; bits < 0x7c00; ++bits) {
    const double d = std::fabs(half_value(bits) - std::fabs(static_cast<double>(x)));
    if (d < distance || (d == distance && bits % 2 == 0)) {
      distance = d;
      best = bits;
    }
  }
  return std::signbit(x) ? best | 0x8000 : best;
}

TEST(Arithmetic, SumsOfHalvesAreRoundedOnce) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<Bytes> hosts;
    std::vector<float> sums(9, 0.0F);
    for (int host = 0; host < 3; ++host) {
      std::vector<std::uint16_t> values(sums.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        // Of every size, below the normal numbers too, and sums that no half holds.
        do values[i] = static_cast<std::uint16_t>(random());
        while ((values[i] & 0x7c00) == 0x7c00);
        const auto value = static_cast<float>(half_value(values[i]));
        sums[i] = host == 0 ? value : sums[i] + value;
      }
      hosts.push_back(bytes_of(values));
    }
    for (const auto* how : all_arithmetics(DataType::fp16, Op::sum)) {
      if (how == nullptr) continue;
      const auto got = values_of<std::uint16_t>(reduce(*how, hosts));
      for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(got[i], nearest_half(sums[i])) << sums[i];
    }
  }
}

TEST(Arithmetic, BrainFloatsAreRoundedToTheNearestAndTiesToEven) {
  const auto sum = [](float a, float b) {
    const auto upper = [](float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); };
    return reduce_two<std::uint16_t>(DataType::bf16, Op::sum, upper(a), upper(b));
  };
  EXPECT_EQ(sum(1.0F, 2.0F), 0x4040);                               // 3
  EXPECT_EQ(sum(1.0F, std::ldexp(1.0F, -8)), 0x3f80);               // a tie: to the even one below
  EXPECT_EQ(sum(1.0F + 1.0F / 128, std::ldexp(1.0F, -8)), 0x3f82);  // a tie: to the even one above
  EXPECT_EQ(sum(1.0F, std::ldexp(1.5F, -8)), 0x3f81);
  EXPECT_EQ(sum(std::numeric_limits<float>::infinity(), 1.0F), 0x7f80);
  EXPECT_EQ(reduce_two<std::uint16_t>(DataType::bf16, Op::sum, 0x7f7f, 0x7f7f), 0x7f80);  // beyond the largest
  EXPECT_EQ(reduce_two<std::uint16_t>(DataType::bf16, Op::max, 0x7f81, 0x0000) & 0x7fff, 0);
  const auto nan = reduce_two<std::uint16_t>(DataType::bf16, Op::sum, 0x7f81, 0x3f80);
  EXPECT_GT(nan & 0x7fff, 0x7f80) << "a number that is none became infinite";
}

TEST(Arithmetic, TheFasterLoopsGiveTheBitsOfTheBaseline) {
  std::mt19937_64 random(11);
  for (std::size_t type = 0; type < kDataTypes; ++type) {
    for (std::size_t op = 0; op < kOps; ++op) {
      for (const Overflow overflow : {Overflow::wrap, Overflow::saturate}) {
        const auto* base = baseline_arithmetic(static_cast<DataType>(type), static_cast<Op>(op), overflow);
        ASSERT_EQ(arithmetic(static_cast<DataType>(type), static_cast<Op>(op), overflow) == nullptr, base == nullptr);
        for (const auto* fast : all_arithmetics(static_cast<DataType>(type), static_cast<Op>(op), overflow)) {
          if (fast == nullptr || fast == base) continue;
          const bool floating = type <= static_cast<std::size_t>(DataType::fp64);
          for (std::size_t n : {1, 7, 8, 15, 16, 31, 64, 256, 1023}) {
            // From odd addresses: packets are aligned to nothing.
            std::vector<Bytes> hosts(4, Bytes(n * fast->element_bytes + 1));
            for (auto& host : hosts) {
              // Which of two NaNs a sum keeps is left to the order of an instruction's operands: small exponents only.
              for (auto& b : host) b = static_cast<std::byte>(random() & (floating ? 0x3b : 0xff));
              host.erase(host.begin());
            }
            ASSERT_EQ(reduce(*fast, hosts), reduce(*base, hosts)) << type << ' ' << op << ' ' << n;
          }
        }
      }
    }
  }
}

TEST(Arithmetic, WritesNothingBesideTheElements) {
  for (std::size_t type = 0; type < kDataTypes; ++type) {
    for (std::size_t k = 0; k < 3 * 100; ++k) {
      const auto* how = all_arithmetics(static_cast<DataType>(type), Op::sum)[k % 3];
      const std::size_t n = k / 3;
      if (how == nullptr) continue;
      constexpr std::size_t kGuard = 32;
      const Bytes packet(n * how->element_bytes, std::byte{1});
      Bytes slot(n * how->accumulator_bytes + kGuard, std::byte{0x55});
      Bytes out(n * how->element_bytes + kGuard, std::byte{0x55});
      how->load(slot.data(), packet.data(), n);
      how->combine(slot.data(), packet.data(), n);
      how->store(out.data(), slot.data(), n);
      for (std::size_t i = 0; i < kGuard; ++i) {
        ASSERT_EQ(slot[n * how->accumulator_bytes + i], std::byte{0x55});
        ASSERT_EQ(out[n * how->element_bytes + i], std::byte{0x55});
      }
    }
  }
}

TEST(Arithmetic, NamesAndNumbersThatAreNone) {
  for (std::size_t i = 0; i < kDataTypes; ++i) {
    EXPECT_EQ(data_type_from(to_string(static_cast<DataType>(i))), static_cast<DataType>(i));
  }
  for (std::size_t i = 0; i < kOps; ++i) EXPECT_EQ(op_from(to_string(static_cast<Op>(i))), static_cast<Op>(i));
  EXPECT_EQ(data_type_from("fp8"), std::nullopt);
  EXPECT_EQ(op_from(""), std::nullopt);
  EXPECT_EQ(to_string(static_cast<DataType>(kDataTypes)), "?");
  EXPECT_EQ(to_string(static_cast<Op>(kOps)), "?");
  EXPECT_EQ(element_bytes(static_cast<DataType>(200)), 0U);
  EXPECT_EQ(arithmetic(static_cast<DataType>(12), Op::sum), nullptr);
  EXPECT_EQ(arithmetic(DataType::int8, static_cast<Op>(7)), nullptr);
}

}  // namespace
}  // namespace weft::inc
