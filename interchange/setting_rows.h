/* interchange/setting_rows.h - macros for the rows of tables of settings.
 *
 * The file with a table defines ARGUMENTS, the struct that the rows describe. */
#ifndef INTERCHANGE_SETTING_ROWS_H
#define INTERCHANGE_SETTING_ROWS_H

#include "interchange/settings.h"

#define ROW(key, kind, member, names, as)                 \
    {                                                     \
        key, kind, offsetof(ARGUMENTS, member), names, as \
    }
#define INT(key, member)         ROW(key, SETTING_INT, member, NULL, NULL)
#define INTS(key, member)        ROW(key, SETTING_INTS, member, NULL, NULL)
#define NUMBER(key, member)      ROW(key, SETTING_NUMBER, member, NULL, NULL)
#define ON(key, member)          ROW(key, SETTING_ON, member, NULL, NULL)
#define OFF(key, member)         ROW(key, SETTING_OFF, member, NULL, NULL)
#define BOOL(key, member)        ROW(key, SETTING_BOOL, member, NULL, NULL)
#define NOT(key, member)         ROW(key, SETTING_NOT, member, NULL, NULL)
#define TEXT(key, member)        ROW(key, SETTING_TEXT, member, NULL, NULL)
#define WORD(key, member, names) ROW(key, SETTING_WORD, member, names, NULL)
#define SET(key, member, names)  ROW(key, SETTING_SET, member, names, NULL)

#endif
