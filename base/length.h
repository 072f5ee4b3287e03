/* base/length.h - how many items an array has. */
#ifndef BASE_LENGTH_H
#define BASE_LENGTH_H

#define LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))

#endif
