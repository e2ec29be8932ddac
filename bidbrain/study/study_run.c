/* Runs a study's jobs on threads, and summarizes their results. See study.h. */
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "bidbrain/study/job.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct study_task {
    struct job_result result;
    char *log;
    size_t log_size;
};

struct study_work {
    const struct study *study;
    struct study_task *tasks; /* starts x (schemes + 1); the last task of each start is on-demand, for relative costs */
    size_t count;
    atomic_size_t next;
    bool logged;
};

static int64_t study_start(const struct study *study, uint64_t number) {
    double unit = (double)(hash_mix(hash_mix(study->options.seed) + number) >> 11) / 9007199254740992.0;
    return study->first_start + (int64_t)(unit * (double)(study->last_start - study->first_start));
}

static void *study_thread(void *context) {
    struct study_work *work = context;
    const struct study *study = work->study;
    size_t columns = study->scheme_count + 1;
    for (size_t t = atomic_fetch_add(&work->next, 1); t < work->count; t = atomic_fetch_add(&work->next, 1)) {
        struct study_task *task = &work->tasks[t];
        size_t column = t % columns;
        const struct scheme *scheme = column < study->scheme_count ? study->schemes[column] : &STUDY_SCHEMES[0];
        FILE *log = work->logged && column < study->scheme_count ? open_memstream(&task->log, &task->log_size) : NULL;
        task->result = job_run(study, scheme, t / columns, study_start(study, t / columns), log);
        if (log != NULL) {
            fclose(log);
        }
    }
    return NULL;
}

static struct statistic statistic_of(const double *values, size_t count) {
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
    }
    double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
    }
    double deviation = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
    return (struct statistic){mean, 1.96 * deviation / sqrt((double)count)};
}

static int double_compare(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void study_summarize(const struct study_work *work, size_t column, struct scheme_summary *summary) {
    const struct study *study = work->study;
    size_t columns = study->scheme_count + 1;
    size_t starts = work->count / columns;
    enum { DOLLARS, RELATIVE, HOURS, EVICTIONS, RESTARTS, ON_DEMAND, SPOT, FREE, KINDS };
    double *values = memory_zeroed(KINDS * starts, sizeof *values);
    *summary = (struct scheme_summary){.scheme = study->schemes[column]};
    for (size_t i = 0; i < starts; i++) {
        const struct job_result *result = &work->tasks[i * columns + column].result;
        const struct job_result *base = &work->tasks[i * columns + columns - 1].result;
        values[DOLLARS * starts + i] = result->dollars;
        values[RELATIVE * starts + i] = result->dollars / base->dollars;
        values[HOURS * starts + i] = result->hours;
        values[EVICTIONS * starts + i] = result->evictions;
        values[RESTARTS * starts + i] = result->restarts;
        values[ON_DEMAND * starts + i] = result->on_demand_hours;
        values[SPOT * starts + i] = result->spot_hours;
        values[FREE * starts + i] = result->free_hours;
        summary->unfinished += !result->finished;
        summary->late += study->options.deadline_hours > 0 &&
                         (!result->finished || result->hours > study->options.deadline_hours + 1.0 / HOUR);
    }
    struct statistic *statistics[KINDS] = {&summary->dollars,    &summary->relative,  &summary->hours,
                                           &summary->evictions,  &summary->restarts,  &summary->on_demand_hours,
                                           &summary->spot_hours, &summary->free_hours};
    for (size_t k = 0; k < KINDS; k++) {
        *statistics[k] = statistic_of(&values[k * starts], starts);
    }
    qsort(&values[HOURS * starts], starts, sizeof *values, double_compare);
    summary->hours_p95 = values[HOURS * starts + (starts * 95 + 99) / 100 - 1];
    free(values);
}

int study_run(const struct study *study, struct scheme_summary summaries[STUDY_SCHEMES_MAX], FILE *log,
              struct error *error) {
    enum { THREADS_MAX = 256 };
    pthread_t threads[THREADS_MAX];
    size_t thread_count = 0;
    size_t columns = study->scheme_count + 1;
    struct study_work work = {.study = study, .count = (size_t)study->options.starts * columns, .logged = log != NULL};
    work.tasks = memory_zeroed(work.count, sizeof *work.tasks);
    for (; thread_count < (size_t)study->options.threads && thread_count < THREADS_MAX; thread_count++) {
        if (pthread_create(&threads[thread_count], NULL, study_thread, &work) != 0) {
            break;
        }
    }
    if (thread_count == 0) {
        (void)study_thread(&work);
    }
    for (size_t t = 0; t < thread_count; t++) {
        pthread_join(threads[t], NULL);
    }
    int code = 0;
    if (log != NULL && ftruncate(fileno(log), 0) != 0 && errno != EINVAL) { /* EINVAL: a pipe, a device */
        code = error_set(error, AML_EFAIL, "--log: can't empty the file: %s", strerror(errno));
    }
    for (size_t t = 0; t < work.count; t++) {
        if (log != NULL && work.tasks[t].log != NULL && code == 0 &&
            fwrite(work.tasks[t].log, 1, work.tasks[t].log_size, log) != work.tasks[t].log_size) {
            code = error_set(error, AML_EFAIL, "--log: can't write to the file");
        }
        free(work.tasks[t].log);
    }
    for (size_t s = 0; s < study->scheme_count; s++) {
        study_summarize(&work, s, &summaries[s]);
    }
    free(work.tasks);
    return code;
}
