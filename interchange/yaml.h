/* interchange/yaml.h - a YAML file as settings with dotted keys, read by libyaml.
 *
 * Nested maps become keys like "model.num_layers", and a list becomes the values of one key.
 * Anchors, aliases and lists of maps are rejected. Without libyaml at build time every file is
 * ERR_UNAVAILABLE. */
#ifndef INTERCHANGE_YAML_H
#define INTERCHANGE_YAML_H

#include "interchange/settings.h"

/* On a syntax error where = "LINE". */
bool yaml_read(const char *text, struct settings *out, struct err *err);

#endif
