// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// CMake makes a precompiled header for a target with a source. This is the source.
