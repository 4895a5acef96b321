#include "fake_portaudio.h"
#include "trap.h"

#ifdef HC_WITH_PORTAUDIO

#include <portaudio.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { CHANNELS = 2 };

/* The lock keeps the stream open during a callback. While the stream is active no other thread takes the lock, because
 * waiting for it would be a system call. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    PaStreamCallback *callback;
    void *data;
    bool is_open;
    atomic_bool is_active;
} stream;
static atomic_int n_refusals; /* of the next attempts */
static PaDeviceInfo card = {.structVersion = 2,
                            .name = "a card of the test",
                            .maxInputChannels = CHANNELS,
                            .maxOutputChannels = CHANNELS,
                            .defaultLowInputLatency = 0.001,
                            .defaultLowOutputLatency = 0.001,
                            .defaultSampleRate = 48000};

/* ---- the card ---------------------------------------------------------------------------------- */

void fake_portaudio_start(int rate)
{
    card.defaultSampleRate = rate;
}

void fake_portaudio_refuse(int n)
{
    atomic_store(&n_refusals, n);
}

bool fake_portaudio_has_stream(void)
{
    return atomic_load(&stream.is_active);
}

const char *fake_portaudio_call(const float *const *in, float *const *out, int n)
{
    const char *caught = NULL;
    const PaStreamCallbackTimeInfo time = {0};
    pthread_mutex_lock(&lock);
    if (atomic_load(&stream.is_active)) {
        if (!SANITIZED) trap_arm();
        stream.callback(in, (void *)out, (unsigned long)n, &time, 0, stream.data);
        if (!SANITIZED) caught = trap_disarm();
    }
    pthread_mutex_unlock(&lock);
    return caught;
}

/* ---- what the program calls -------------------------------------------------------------------- */

PaError Pa_Initialize(void)
{
    return paNoError;
}

PaError Pa_Terminate(void)
{
    return paNoError;
}

PaDeviceIndex Pa_GetDeviceCount(void)
{
    return 1;
}

PaDeviceIndex Pa_GetDefaultInputDevice(void)
{
    return 0;
}

PaDeviceIndex Pa_GetDefaultOutputDevice(void)
{
    return 0;
}

const PaDeviceInfo *Pa_GetDeviceInfo(PaDeviceIndex device)
{
    return device == 0 ? &card : NULL;
}

const PaHostApiInfo *Pa_GetHostApiInfo(PaHostApiIndex api)
{
    static const PaHostApiInfo test = {.structVersion = 1, .name = "Test", .deviceCount = 1};
    return api == 0 ? &test : NULL;
}

const PaHostErrorInfo *Pa_GetLastHostErrorInfo(void)
{
    return NULL;
}

const char *Pa_GetErrorText(PaError error)
{
    return "an error of the test's card";
}

static bool suits(const PaStreamParameters *side)
{
    return side && side->channelCount == CHANNELS && side->sampleFormat == (paFloat32 | paNonInterleaved);
}

PaError Pa_IsFormatSupported(const PaStreamParameters *in, const PaStreamParameters *out, double rate)
{
    if (atomic_load(&n_refusals) > 0 && atomic_fetch_sub(&n_refusals, 1) > 0) return paDeviceUnavailable;
    return suits(in) && suits(out) && rate == card.defaultSampleRate ? paFormatIsSupported : paInvalidSampleRate;
}

PaError Pa_OpenStream(PaStream **opened, const PaStreamParameters *in, const PaStreamParameters *out, double rate,
                      unsigned long block, PaStreamFlags flags, PaStreamCallback *callback, void *data)
{
    if (stream.is_open || Pa_IsFormatSupported(in, out, rate) != paFormatIsSupported) return paDeviceUnavailable;
    pthread_mutex_lock(&lock);
    stream.callback = callback;
    stream.data = data;
    stream.is_open = true;
    pthread_mutex_unlock(&lock);
    *opened = &stream;
    return paNoError;
}

static PaError set_active(bool active)
{
    pthread_mutex_lock(&lock);
    atomic_store(&stream.is_active, active);
    pthread_mutex_unlock(&lock);
    return paNoError;
}

PaError Pa_StartStream(PaStream *s)
{
    return set_active(true);
}

PaError Pa_AbortStream(PaStream *s)
{
    return set_active(false);
}

PaError Pa_CloseStream(PaStream *s)
{
    stream.is_open = false;
    return paNoError;
}

PaError Pa_IsStreamActive(PaStream *s)
{
    return fake_portaudio_has_stream();
}

const PaStreamInfo *Pa_GetStreamInfo(PaStream *s)
{
    static const PaStreamInfo info = {.structVersion = 1, .inputLatency = 0.001, .outputLatency = 0.001};
    return &info;
}

#else /* never called: live_driver.missing is set */
void fake_portaudio_start(int rate) {}
void fake_portaudio_refuse(int n) {}
bool fake_portaudio_has_stream(void)
{
    return false;
}
const char *fake_portaudio_call(const float *const *in, float *const *out, int n)
{
    return "no PortAudio";
}
#endif
