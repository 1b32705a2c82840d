// One MoE layer over MPI ranks, by every way of exchanging rows that the papers name. Each rank has its own tokens.
//   mpirun -n P collectives ROUTES TOKENS TOP_K EXPERTS WIDTH HIDDEN ROUNDS
// ROUTES holds uint16 experts, (TOKENS, TOP_K). Rank 0 prints a line of JSON for each way. Every way gives what one
// process computes of the same tokens, within float32 rounding; otherwise the program ends with 1.
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace {

using Rows = std::vector<float>;
using Counts = std::vector<int>;

constexpr int kNode = 2;
constexpr float kTolerance = 1e-5F;

int rank, ranks, experts, width, hidden, top_k, tokens;
Rows up, down;  // (experts, width, hidden), (experts, hidden, width)
Rows inputs;    // (tokens, width), of this rank
Counts chosen;  // (tokens, top_k), of this rank
double exchange_seconds;
int64_t bytes, messages;

int sum(const Counts& counts, int from, int to) {
  int total = 0;
  for (int i = from; i < to; ++i) total += counts[i];
  return total;
}

/// Times a collective, and counts what this rank sends to others: `sent` bytes in `parts` messages.
void exchange(int64_t sent, int parts, const std::function<int()>& collective) {
  const double begin = MPI_Wtime();
  collective();
  exchange_seconds += MPI_Wtime() - begin;
  bytes += sent;
  messages += parts;
}

/// Columns [from, to) of an expert's hidden layer; `out` rows are overwritten.
void compute(int expert, int from, int to, const std::vector<const float*>& in, const std::vector<float*>& out) {
  constexpr size_t kBlock = 8;
  std::vector<float> between(kBlock * hidden);
  const float* wi = &up[static_cast<size_t>(expert) * width * hidden];
  const float* wo = &down[static_cast<size_t>(expert) * hidden * width];
  for (size_t begin = 0; begin < in.size(); begin += kBlock) {
    const size_t end = std::min(in.size(), begin + kBlock);
    std::fill(between.begin(), between.end(), 0.0F);
    for (int i = 0; i < width; ++i)
      for (size_t row = begin; row < end; ++row) {
        float* sums = &between[(row - begin) * hidden];
        for (int j = from; j < to; ++j) sums[j] += in[row][i] * wi[i * hidden + j];
      }
    for (size_t row = begin; row < end; ++row) std::fill_n(out[row], width, 0.0F);
    for (int j = from; j < to; ++j)
      for (size_t row = begin; row < end; ++row) {
        const float value = std::max(0.0F, between[(row - begin) * hidden + j]);
        for (int i = 0; i < width; ++i) out[row][i] += value * wo[j * width + i];
      }
  }
}

/// Rows in blocks of `counts`, (outer, count.size() / outer); each expert computes its blocks at once.
Rows compute_blocks(const Rows& rows, const Counts& counts, int first, int own, int from, int to) {
  Rows result(rows.size());
  std::vector<std::vector<const float*>> in(own);
  std::vector<std::vector<float*>> out(own);
  size_t at = 0;
  for (size_t block = 0; block < counts.size(); ++block)
    for (int row = 0; row < counts[block]; ++row, at += width) {
      in[block % own].push_back(&rows[at]);
      out[block % own].push_back(&result[at]);
    }
  for (int e = 0; e < own; ++e) compute(first + e, from, to, in[e], out[e]);
  return result;
}

/// Rows to each member of `comm`, in blocks of `send` and `receive`, both (members, blocks).
Rows send_rows(const Rows& rows, const Counts& send, const Counts& receive, MPI_Comm comm) {
  int members, self;
  MPI_Comm_size(comm, &members);
  MPI_Comm_rank(comm, &self);
  const int blocks = static_cast<int>(send.size()) / members;
  Counts out(members), in(members), out_at(members), in_at(members);
  int64_t sent = 0;
  int parts = 0;
  for (int m = 0; m < members; ++m) {
    out[m] = width * sum(send, m * blocks, (m + 1) * blocks);
    in[m] = width * sum(receive, m * blocks, (m + 1) * blocks);
    if (m > 0) out_at[m] = out_at[m - 1] + out[m - 1], in_at[m] = in_at[m - 1] + in[m - 1];
    if (m != self && out[m] > 0) sent += 4LL * out[m], ++parts;
  }
  Rows result(in_at.back() + in.back());
  exchange(sent, parts, [&] {
    return MPI_Alltoallv(rows.data(), out.data(), out_at.data(), MPI_FLOAT, result.data(), in.data(), in_at.data(),
                         MPI_FLOAT, comm);
  });
  return result;
}

/// The first phase: how many rows each member sends to each of `blocks`.
Counts send_counts(const Counts& send, MPI_Comm comm) {
  int members;
  MPI_Comm_size(comm, &members);
  const int blocks = static_cast<int>(send.size()) / members;
  Counts receive(send.size());
  exchange(4LL * (members - 1) * blocks, members - 1,
           [&] { return MPI_Alltoall(send.data(), blocks, MPI_INT, receive.data(), blocks, MPI_INT, comm); });
  return receive;
}

/// Blocks of rows from (a, b, rest) to (b, a, rest), and their counts.
void swap_blocks(Rows& rows, Counts& counts, int a, int b) {
  const int rest = static_cast<int>(counts.size()) / a / b;
  Counts at(counts.size() + 1), swapped;
  for (size_t i = 0; i < counts.size(); ++i) at[i + 1] = at[i] + counts[i];
  Rows moved;
  for (int j = 0; j < b; ++j)
    for (int i = 0; i < a; ++i)
      for (int k = 0; k < rest; ++k) {
        const int block = (i * b + j) * rest + k;
        swapped.push_back(counts[block]);
        moved.insert(moved.end(), rows.begin() + static_cast<int64_t>(at[block]) * width,
                     rows.begin() + static_cast<int64_t>(at[block + 1]) * width);
      }
  rows = std::move(moved);
  counts = std::move(swapped);
}

struct Sorted {
  std::vector<int> choices;  // of this rank, in the order of the rows
  Rows rows;
  Counts counts;  // by expert
};

Sorted by_expert() {
  Sorted sorted{std::vector<int>(chosen.size()), {}, Counts(experts)};
  for (size_t i = 0; i < chosen.size(); ++i) sorted.choices[i] = static_cast<int>(i), ++sorted.counts[chosen[i]];
  std::stable_sort(sorted.choices.begin(), sorted.choices.end(), [](int a, int b) { return chosen[a] < chosen[b]; });
  for (int choice : sorted.choices) {
    const float* row = &inputs[static_cast<size_t>(choice / top_k) * width];
    sorted.rows.insert(sorted.rows.end(), row, row + width);
  }
  return sorted;
}

void add_row(Rows& result, int choice, const float* row) {
  float* sums = &result[static_cast<size_t>(choice / top_k) * width];
  for (int i = 0; i < width; ++i) sums[i] += row[i] / static_cast<float>(top_k);
}

Rows added(const std::vector<int>& choices, const Rows& rows) {
  Rows result(inputs.size());
  for (size_t i = 0; i < choices.size(); ++i) add_row(result, choices[i], &rows[i * width]);
  return result;
}

Rows one_process() {
  const Sorted sorted = by_expert();
  return added(sorted.choices, compute_blocks(sorted.rows, sorted.counts, 0, experts, 0, hidden));
}

/// Static gating: as many rows for every expert as the fullest one of any rank has, and all of them are computed.
Rows padded() {
  const Sorted sorted = by_expert();
  int capacity = *std::max_element(sorted.counts.begin(), sorted.counts.end());
  exchange(4LL * (ranks - 1), ranks - 1,
           [&] { return MPI_Allreduce(MPI_IN_PLACE, &capacity, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD); });
  const size_t each = static_cast<size_t>(capacity) * width;
  Rows sent(experts * each), received(experts * each), answers(experts * each);
  const float* from = sorted.rows.data();
  for (int e = 0; e < experts; from += static_cast<size_t>(sorted.counts[e]) * width, ++e)
    std::copy_n(from, static_cast<size_t>(sorted.counts[e]) * width, &sent[e * each]);
  const int own = experts / ranks, part = own * static_cast<int>(each);
  const auto all_to_all = [&](const Rows& out, Rows& in) {
    exchange(4LL * part * (ranks - 1), ranks - 1,
             [&] { return MPI_Alltoall(out.data(), part, MPI_FLOAT, in.data(), part, MPI_FLOAT, MPI_COMM_WORLD); });
  };
  all_to_all(sent, received);
  all_to_all(compute_blocks(received, Counts(experts, capacity), rank * own, own, 0, hidden), answers);
  Rows rows;
  for (int e = 0; e < experts; ++e)
    rows.insert(rows.end(), &answers[e * each], &answers[e * each] + static_cast<size_t>(sorted.counts[e]) * width);
  return added(sorted.choices, rows);
}

/// Sizes first, then exactly the rows. With `slices` a group of so many ranks shares its experts' hidden columns.
Rows two_phase(int slices) {
  const Sorted sorted = by_expert();
  const int own = experts / ranks * slices, columns = hidden / slices, slice = rank % slices;
  Rows rows;
  Counts counts;
  const float* from = sorted.rows.data();
  for (int group = 0; group < ranks / slices; ++group) {
    const int size = sum(sorted.counts, group * own, (group + 1) * own) * width;
    for (int s = 0; s < slices; ++s) {
      rows.insert(rows.end(), from, from + size);
      counts.insert(counts.end(), &sorted.counts[group * own], &sorted.counts[group * own] + own);
    }
    from += size;
  }
  const Counts theirs = send_counts(counts, MPI_COMM_WORLD);
  const Rows received = send_rows(rows, counts, theirs, MPI_COMM_WORLD);
  const Rows computed =
      compute_blocks(received, theirs, rank / slices * own, own, slice * columns, (slice + 1) * columns);
  const Rows answers = send_rows(computed, theirs, counts, MPI_COMM_WORLD);
  Rows result(inputs.size());
  size_t at = 0;
  int first = 0;
  for (int group = 0; group < ranks / slices; ++group) {
    const int size = sum(sorted.counts, group * own, (group + 1) * own);
    for (int s = 0; s < slices; ++s)
      for (int i = 0; i < size; ++i, at += width) add_row(result, sorted.choices[first + i], &answers[at]);
    first += size;
  }
  return result;
}

/// All-to-all inside the node first, so that rows go to the other nodes in messages of the whole node's.
Rows hierarchical(MPI_Comm node, MPI_Comm across) {
  const Sorted sorted = by_expert();
  const int nodes = ranks / kNode, own = experts / ranks;
  Rows rows = sorted.rows;
  Counts counts = sorted.counts;  // (nodes, members, own)
  swap_blocks(rows, counts, nodes, kNode);
  Counts gathered = send_counts(counts, node);  // (members that sent, nodes, own)
  rows = send_rows(rows, counts, gathered, node);
  Counts sent = gathered;
  swap_blocks(rows, sent, kNode, nodes);
  const Counts received = send_counts(sent, across);
  const Rows here = send_rows(rows, sent, received, across);
  Rows back = send_rows(compute_blocks(here, received, rank * own, own, 0, hidden), received, sent, across);
  swap_blocks(back, sent, nodes, kNode);
  Rows answers = send_rows(back, gathered, counts, node);
  swap_blocks(answers, counts, kNode, nodes);
  return added(sorted.choices, answers);
}

/// Every rank has a part of the hidden columns of every expert, sees all tokens, and sums are scattered.
Rows tensor_slicing() {
  const int columns = hidden / ranks, floats = tokens * width;
  Rows all(static_cast<size_t>(ranks) * floats), result(floats);
  Counts choices(ranks * chosen.size());
  const int count = static_cast<int>(chosen.size());
  exchange((ranks - 1) * 4LL * (floats + count), 2 * (ranks - 1), [&] {
    MPI_Allgather(chosen.data(), count, MPI_INT, choices.data(), count, MPI_INT, MPI_COMM_WORLD);
    return MPI_Allgather(inputs.data(), floats, MPI_FLOAT, all.data(), floats, MPI_FLOAT, MPI_COMM_WORLD);
  });
  std::swap(inputs, all), std::swap(chosen, choices);
  const Sorted sorted = by_expert();
  const Rows parts = added(
      sorted.choices, compute_blocks(sorted.rows, sorted.counts, 0, experts, rank * columns, (rank + 1) * columns));
  std::swap(inputs, all), std::swap(chosen, choices);
  exchange((ranks - 1) * 4LL * floats, ranks - 1, [&] {
    return MPI_Reduce_scatter_block(parts.data(), result.data(), floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  });
  return result;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Returns whether the result is that of one process.
bool measure(const char* name, int rounds, const Rows& expected, const std::function<Rows()>& way) {
  std::vector<double> whole, exchanged;
  int64_t totals[2];
  float error = 0;
  for (int round = -1; round < rounds; ++round) {
    bytes = messages = 0, exchange_seconds = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    const Rows result = way();
    double times[2] = {MPI_Wtime() - begin, exchange_seconds};
    MPI_Allreduce(MPI_IN_PLACE, times, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (round >= 0) whole.push_back(1e3 * times[0]), exchanged.push_back(1e3 * times[1]);
    for (size_t i = 0; i < result.size(); ++i) error = std::max(error, std::fabs(result[i] - expected[i]));
  }
  totals[0] = bytes, totals[1] = messages;
  MPI_Allreduce(MPI_IN_PLACE, totals, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &error, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0)
    std::printf(R"({"way":"%s","ms":%.4f,"exchangeMs":%.4f,"bytes":%lld,"messages":%lld,"error":%.3g})"
                "\n",
                name, median(whole), median(exchanged), static_cast<long long>(totals[0]),
                static_cast<long long>(totals[1]), error);
  return error <= kTolerance;
}

void fill(Rows& values, size_t count, float scale, unsigned seed) {
  std::mt19937 random(seed);
  values.resize(count);
  for (float& value : values) value = scale * (static_cast<float>(random() >> 8) / (1 << 23) - 1.0F);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto number = [&](int at) { return std::atoi(argv[at]); };
  std::FILE* file = argc == 8 ? std::fopen(argv[1], "rb") : nullptr;
  if (file == nullptr) MPI_Abort(MPI_COMM_WORLD, 2);
  tokens = number(2) / ranks, top_k = number(3), experts = number(4), width = number(5), hidden = number(6);
  if (experts % ranks != 0 || hidden % ranks != 0 || tokens == 0) MPI_Abort(MPI_COMM_WORLD, 2);
  std::vector<uint16_t> routes(static_cast<size_t>(tokens) * top_k);
  std::fseek(file, static_cast<long>(2 * rank * routes.size()), SEEK_SET);
  if (std::fread(routes.data(), 2, routes.size(), file) != routes.size()) MPI_Abort(MPI_COMM_WORLD, 2);
  std::fclose(file);
  chosen.assign(routes.begin(), routes.end());
  const size_t matrix = static_cast<size_t>(width) * hidden;
  fill(up, experts * matrix, std::sqrt(3.0F / static_cast<float>(width)), 1);
  fill(down, experts * matrix, std::sqrt(3.0F / static_cast<float>(hidden)), 2);
  fill(inputs, static_cast<size_t>(tokens) * width, 1.7F, 3 + rank);
  MPI_Comm node, across;
  MPI_Comm_split(MPI_COMM_WORLD, rank / kNode, rank, &node);
  MPI_Comm_split(MPI_COMM_WORLD, rank % kNode, rank, &across);
  const int rounds = number(7);
  const Rows expected = one_process();
  bool equal = measure("padded", rounds, expected, padded);
  equal &= measure("two-phase", rounds, expected, [] { return two_phase(1); });
  if (ranks > kNode) equal &= measure("hierarchical", rounds, expected, [&] { return hierarchical(node, across); });
  equal &= measure("expert slices", rounds, expected, [] { return two_phase(kNode); });
  equal &= measure("tensor slices", rounds, expected, tensor_slicing);
  MPI_Finalize();
  return equal ? 0 : 1;
}
