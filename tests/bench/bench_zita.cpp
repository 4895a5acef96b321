/* bench_zita - compares haloconv with zita-convolver, the engine of jconvolver, Guitarix, Aliki and others.
 *
 *   make bench-zita        or: build/tests/bench_zita [--instances N] [--seconds S] [--block B] [--matrix N] [--time S]
 *                              [--trace FILE]   also writes every block's time: name, index, microseconds
 *
 * Both convolve the same noise with the same responses in one run, in turns of a second of audio, pinned to
 * one core with all their threads. Cost is the processor time that the process used meanwhile, which counts zita's
 * threads and does not count what other programs took; instances a core = instances * seconds of audio / that time. A
 * block's time is the same clock's, from one call to the next: zita's process(true) waits for its threads when their
 * result falls due, so on one core it is what a caller waits, less what other programs take.
 *
 * zita is set up as in jconvolver: OPT_VECTOR_MODE, OPT_FFTW_MEASURE, minpart = quantum = block, maxpart = MAXPART. For
 * instances it runs in two shapes, a mono Convproc each, and Convprocs of 64 channels that share their threads; the
 * better one is compared with haloconv. The outputs are checked before anything is timed.
 */
#include "haloconv.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <time.h>
#include <vector>
#include <zita-convolver.h>

namespace {

constexpr int RATE = 48000;
constexpr int COLD_BLOCKS = 20; /* of each turn, which are not timed: the other program has emptied the caches */

double seconds_of(clockid_t clock)
{
    timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

[[noreturn]] void die(const std::string &what)
{
    std::fprintf(stderr, "bench_zita: %s\n", what.c_str());
    std::exit(1);
}

uint64_t seed() /* HC_TEST_SEED: other numbers, other responses and sounds */
{
    const char *text = std::getenv("HC_TEST_SEED");
    return text ? std::strtoull(text, nullptr, 0) : 0;
}

struct Noise {
    uint64_t state;
    float next()
    {
        state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
        return (float)((double)((state * 0x2545F4914F6CDD1Dull) >> 32) / 2147483647.5 - 1.0);
    }
};

struct Shape {
    int channels; /* of one convolver */
    bool matrix;  /* else channel by channel */
    int convolvers;
    int taps, block;
};

/* The convolvers of a shape share their responses; each still keeps spectra of its own. */
std::vector<std::vector<float>> responses(const Shape &shape)
{
    int n = shape.matrix ? shape.channels * shape.channels : std::min(shape.channels, 8);
    std::vector<std::vector<float>> h((size_t)n);
    Noise noise{12345 + seed()};
    for (auto &r : h) {
        r.resize((size_t)shape.taps);
        for (int k = 0; k < shape.taps; k++)
            r[(size_t)k] = noise.next() * std::exp(-6.9f * (float)k / (float)shape.taps) * 0.02f;
    }
    return h;
}

class Convolver {
  public:
    virtual ~Convolver() = default;
    virtual void process(const float *const *in, float *const *out, int n_channels, int block) = 0;
};

class Zita : public Convolver {
  public:
    Zita(const Shape &shape, const std::vector<std::vector<float>> &h)
    {
        proc.set_options(Convproc::OPT_VECTOR_MODE | Convproc::OPT_FFTW_MEASURE);
        float density = shape.matrix ? 1.0f : 1.0f / (float)shape.channels;
        auto n = (uint32_t)shape.channels, b = (uint32_t)shape.block;
        if (proc.configure(n, n, (uint32_t)shape.taps, b, b, Convproc::MAXPART, density)) die("zita: configure failed");
        for (int out = 0; out < shape.channels; out++)
            for (int in = 0; in < shape.channels; in++) {
                if (!shape.matrix && in != out) continue;
                size_t r = shape.matrix ? (size_t)(out * shape.channels + in) : (size_t)out % h.size();
                if (proc.impdata_create((uint32_t)in, (uint32_t)out, 1, const_cast<float *>(h[r].data()), 0, shape.taps))
                    die("zita: impdata_create failed");
            }
        if (proc.start_process(0, SCHED_OTHER)) die("zita: start_process failed");
    }
    ~Zita() override
    {
        proc.stop_process();
        while (!proc.check_stop()) sched_yield();
        proc.cleanup();
    }
    void process(const float *const *in, float *const *out, int n_channels, int block) override
    {
        for (int ch = 0; ch < n_channels; ch++) std::memcpy(proc.inpdata((uint32_t)ch), in[ch], (size_t)block * 4);
        proc.process(true);
        for (int ch = 0; ch < n_channels; ch++) std::memcpy(out[ch], proc.outdata((uint32_t)ch), (size_t)block * 4);
    }

  private:
    Convproc proc;
};

class Ours : public Convolver {
  public:
    Ours(const Shape &shape, const std::vector<std::vector<float>> &h)
    {
        char why[256];
        hc_config c;
        hc_config_init(&c);
        c.rate = RATE;
        c.block = shape.block;
        c.n_in = c.n_out = shape.channels;
        c.max_taps = shape.taps;
        c.n_routes = shape.matrix ? shape.channels * shape.channels : shape.channels;
        c.backend = "cpu";
        if (hc_open(&c, &engine, why, sizeof why)) die(why);
        std::vector<hc_route> routes;
        for (int out = 0; out < shape.channels; out++)
            for (int in = 0; in < shape.channels; in++) {
                if (!shape.matrix && in != out) continue;
                size_t r = shape.matrix ? (size_t)(out * shape.channels + in) : (size_t)out % h.size();
                routes.push_back({in, out, h[r].data(), shape.taps, 1.0f, 0});
            }
        if (!shape.matrix) /* haloconv would keep one spectrum of shared responses: make each different */
            for (size_t i = 0; i < routes.size(); i++) routes[i].gain = 1.0f + 1e-7f * (float)(i + 1) * 2;
        hc_mask *mask;
        if (hc_mask_make(engine, routes.data(), sizeof(hc_route), (int)routes.size(), &mask, why, sizeof why)) die(why);
        hc_mask_swap(engine, mask);
    }
    ~Ours() override { hc_close(engine); }
    void process(const float *const *in, float *const *out, int, int block) override
    {
        if (hc_process(engine, in, out, block)) die("hc_process failed");
    }

  private:
    hc_engine *engine = nullptr;
};

struct Contender {
    std::string name;
    Shape shape;
    std::vector<std::unique_ptr<Convolver>> convolvers;
    double cpu_s = 0;
    std::vector<double> block_us;
};

struct Audio { /* the input of every convolver, and one block of output */
    std::vector<std::vector<float>> in, out;
    std::vector<const float *> in_at;
    std::vector<float *> out_at;
    Audio(int channels, int block)
    {
        in.resize((size_t)channels), out.resize((size_t)channels), in_at.resize((size_t)channels);
        out_at.resize((size_t)channels);
        Noise noise{99 + seed()};
        for (auto &x : in) {
            x.resize((size_t)(RATE / block * block)); /* a second, again and again */
            for (auto &s : x) s = noise.next() * 0.5f;
        }
        for (auto &y : out) y.resize((size_t)block);
    }
    void at(int64_t frame)
    {
        for (size_t ch = 0; ch < in.size(); ch++) {
            in_at[ch] = in[ch].data() + (size_t)(frame % (int64_t)(in[ch].size()));
            out_at[ch] = out[ch].data();
        }
    }
};

void play(Contender &c, Audio &audio, int64_t first, int n_blocks, bool timed)
{
    double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (int b = 0; b < n_blocks; b++) {
        audio.at((first + b) * c.shape.block);
        double start = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
        for (auto &convolver : c.convolvers)
            convolver->process(audio.in_at.data(), audio.out_at.data(), c.shape.channels, c.shape.block);
        if (timed && b >= COLD_BLOCKS) c.block_us.push_back((seconds_of(CLOCK_PROCESS_CPUTIME_ID) - start) * 1e6);
    }
    for (double before = 0, now = seconds_of(CLOCK_PROCESS_CPUTIME_ID); now - before > 1e-4;) {
        before = now; /* work that is left to a contender's threads counts as its own */
        timespec wakeup = {0, 3000000};
        nanosleep(&wakeup, nullptr);
        now = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    }
    if (timed) c.cpu_s += seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
}

/* The largest error of a contender's first output at a few frames against a float64 sum, in dB of its peak. */
double error_db(Contender &c, const std::vector<std::vector<float>> &h)
{
    const Shape &shape = c.shape;
    Audio audio(shape.channels, shape.block);
    double worst = 0, peak = 0;
    int n_blocks = std::min(2 * shape.taps, 4 * RATE) / shape.block, second = (int)audio.in[0].size();
    for (int i = 0; i < n_blocks; i++) {
        audio.at((int64_t)i * shape.block);
        c.convolvers[0]->process(audio.in_at.data(), audio.out_at.data(), shape.channels, shape.block);
        if (i % (n_blocks / 12) != n_blocks / 24) continue;
        int frame = i * shape.block + i % shape.block;
        double want = 0;
        for (int in = 0; in < (shape.matrix ? shape.channels : 1); in++)
            for (int k = 0; k <= frame && k < shape.taps; k++)
                want += (double)h[(size_t)in][(size_t)k] * (double)audio.in[(size_t)in][(size_t)((frame - k) % second)];
        worst = std::max(worst, std::fabs((double)audio.out[0][(size_t)(i % shape.block)] - want));
        peak = std::max(peak, std::fabs(want));
    }
    return 20 * std::log10(worst / peak + 1e-12);
}

double quantile(std::vector<double> v, double q)
{
    size_t i = std::min((size_t)(q * (double)v.size()), v.size() - 1);
    std::nth_element(v.begin(), v.begin() + (long)i, v.end());
    return v[i];
}

/* Every block's time as lines of text, for plot_block_times.py. */
void write_trace(const char *path, const std::vector<Contender> &contenders)
{
    FILE *file = std::fopen(path, "w");
    if (!file) die(std::string("cannot write ") + path);
    std::fprintf(file, "name,block,us\n");
    for (const auto &c : contenders)
        for (size_t b = 0; b < c.block_us.size(); b++) std::fprintf(file, "%s,%zu,%.1f\n", c.name.c_str(), b, c.block_us[b]);
    std::fclose(file);
}

/* One line of the table. instances: mono ones, or 0: one matrix. */
void bench(int instances, int matrix, double seconds, int block, double time_s, const char *trace)
{
    int taps = (int)std::lround(seconds * RATE);
    std::vector<Contender> contenders;
    auto add = [&](const char *name, Shape shape) { contenders.push_back({name, shape, {}, 0, {}}); };
    if (matrix) {
        add("haloconv", {matrix, true, 1, taps, block});
        add("zita", {matrix, true, 1, taps, block});
    } else {
        add("haloconv", {1, false, instances, taps, block});
        if (instances >= 64) add("haloconv x 64 channels", {64, false, instances / 64, taps, block});
        add("zita", {1, false, instances, taps, block});
        if (instances >= 64) add("zita x 64 channels", {64, false, instances / 64, taps, block});
    }
    for (auto &c : contenders) {
        auto h = responses(c.shape);
        for (int i = 0; i < c.shape.convolvers; i++)
            if (c.name[0] == 'h')
                c.convolvers.push_back(std::make_unique<Ours>(c.shape, h));
            else
                c.convolvers.push_back(std::make_unique<Zita>(c.shape, h));
    }
    for (auto &c : contenders) {
        double off = error_db(c, responses(c.shape));
        if (off < -100) continue;
        if (c.name[0] == 'h') die("haloconv is off by " + std::to_string(off) + " dB");
        std::printf("(%s is off by %.0f dB when it is not paced: its threads fell behind)\n", c.name.c_str(), off);
    }

    Audio audio(matrix ? matrix : instances >= 64 ? 64 : 1, block);
    int turn = std::max(1, RATE / block), n_turns = (int)std::lround(time_s);
    for (int t = -1; t < n_turns; t++)
        for (auto &c : contenders) play(c, audio, (int64_t)(t + 1) * turn, turn, t >= 0);

    double audio_s = (double)n_turns * turn * block / RATE, best_zita = 0, ours = 0;
    for (auto &c : contenders) {
        double held = c.shape.convolvers * (matrix ? 1 : c.shape.channels) * audio_s / c.cpu_s;
        bool is_ours = c.name[0] == 'h';
        (is_ours ? ours : best_zita) = std::max(is_ours ? ours : best_zita, held);
        double median = quantile(c.block_us, 0.5), p99 = quantile(c.block_us, 0.99);
        std::printf("%-10s %5.1f s %5d frames  %-22s %8.2f a core   median %8.1f us  p99 %8.1f us = %.2f x  p99.9 %.2f x\n",
                    matrix ? (std::to_string(matrix) + " x " + std::to_string(matrix)).c_str()
                           : (std::to_string(instances) + " mono").c_str(),
                    seconds, block, c.name.c_str(), held, median, p99, p99 / median,
                    quantile(c.block_us, 0.999) / median);
    }
    std::printf("%70s %.2f x zita's better\n", "", ours / best_zita);
    if (trace) write_trace(trace, contenders);
    std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv)
{
    int instances = 0, matrix = 0, block = 0;
    double seconds = 0, time_s = 3;
    const char *trace = nullptr;
    for (int i = 1; i < argc; i++) {
        auto value = [&] { return i + 1 < argc ? argv[++i] : (die("a value is missing"), nullptr); };
        if (!std::strcmp(argv[i], "--instances")) instances = std::atoi(value());
        else if (!std::strcmp(argv[i], "--matrix")) matrix = std::atoi(value());
        else if (!std::strcmp(argv[i], "--seconds")) seconds = std::atof(value());
        else if (!std::strcmp(argv[i], "--block")) block = std::atoi(value());
        else if (!std::strcmp(argv[i], "--time")) time_s = std::atof(value());
        else if (!std::strcmp(argv[i], "--trace")) trace = value();
        else
            die(std::string("usage: bench_zita [--instances N | --matrix N] [--seconds S] [--block B] [--time S] "
                            "[--trace FILE], not ") +
                argv[i]);
    }
    std::printf("HC_TEST_SEED=%llu\n", (unsigned long long)seed());
    cpu_set_t one; /* threads that are started later inherit it */
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one)) die("cannot be pinned to one core");
    if (instances || matrix) {
        bench(instances, matrix, seconds > 0 ? seconds : 1, block ? block : 64, time_s, trace);
        return 0;
    }
    for (int b : {64, 128})
        for (double s : {1.0, 10.0}) {
            bench(1, 0, s, b, time_s, nullptr);
            bench(s > 5 ? 64 : 256, 0, s, b, time_s, nullptr);
            bench(0, 8, s, b, time_s, nullptr);
            bench(0, 16, s, b, time_s, nullptr);
        }
    return 0;
}
