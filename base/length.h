/* base/length.h - the number of elements of an array. */
#ifndef BASE_LENGTH_H
#define BASE_LENGTH_H

#define LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))

#endif
