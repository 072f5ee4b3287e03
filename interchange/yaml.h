/* interchange/yaml.h - a YAML file as settings with dotted keys, read by libyaml.
 *
 * Maps become "model.num_layers", lists the values of one key. Anchors, aliases and lists of maps
 * are refused. Without libyaml at build time every file is ERR_UNAVAILABLE. */
#ifndef INTERCHANGE_YAML_H
#define INTERCHANGE_YAML_H

#include "interchange/settings.h"

/* where = "LINE". */
bool yaml_read(const char *text, struct settings *out, struct err *err);

#endif
