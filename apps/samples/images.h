/* Tar files of labelled images, JPEG and PNG, read as a stream in the calling thread. Finds images and their labels,
 * and passes them on compressed; image.h decodes them.
 *
 * An entry is an image by the end of its name: .jpg, .jpeg, .jpe, .jfif or .png, in any case. Its label is either
 *
 *   in a file of its own   KEY.cls before or after KEY.jpg, with a number as text, as in WebDataset. A key ends at the
 *                          first dot after the folders, so KEY.cls also belongs to KEY.input.jpg. A key has one image
 *   its folder's name      as in the tar of a folder that has a folder for each class
 *
 * The first image decides for all. Images whose names show another format are rejected. Other entries are ignored,
 * and so are those whose names begin with a dot. An image or a .cls file must be a plain file: links and files with
 * holes are rejected. */
#ifndef APPS_SAMPLES_IMAGES_H
#define APPS_SAMPLES_IMAGES_H

#include "apps/samples/image.h"
#include "apps/samples/samples.h"

enum {
    IMAGES_BYTES_MAX = (1 << 20) - 64, /* bytes of a compressed image; an item has some bytes more */
    IMAGES_NAME_MAX = 4096             /* bytes of an entry's name */
};

/* One image, valid during the call that it is passed to. */
struct images_entry {
    const char *name; /* name of the entry */
    uint64_t number;  /* number of the image in its file, from 0 */
    bool labelled;
    struct label label;
    const unsigned char *bytes; /* [size] */
    size_t size;
};

/* Takes an image. A result other than 0 stops the reading and becomes its result, with file and entry before the
 * text of *error. */
typedef int images_sink(void *context, const struct images_entry *entry, struct error *error);

/* Passes the images of a file to `sink`. `label_optional`: images may lack labels; otherwise a missing label is an
 * error. Returns 0, AML_EINPUT, AML_EFAIL, AML_ENOMEM, or what the sink has returned. */
int images_read(const char *path, enum images_labels labels, bool label_optional, images_sink *sink, void *context,
                struct error *error);

/* Sets *tar to whether the file has format SAMPLES_TAR. With SAMPLES_AUTO, its name or first bytes decide. */
int images_are_tar(const struct samples_file *file, bool *tar, struct error *error);

/* Finds where the files' labels are, by the first image. */
int images_find_labels(const struct samples_file *file, enum images_labels *labels, struct error *error);

/* Makes the survey of the files by their entries' names and labels. Completes `form`: parts of its shape that are 0
 * become those of the first image. Reads the bytes of only the first image. But it passes over all of the files,
 * which for an address costs as much as reading. `places` then has a chunk for each file. After success
 * samples_survey_close must follow. */
int images_survey(const struct samples_file *file, struct images_form *form, struct samples_survey *survey,
                  struct error *error);

#endif
