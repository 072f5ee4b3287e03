#include "base/field.h"
#include "base/json.h"
#include "tests/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum dtype { DTYPE_BF16, DTYPE_FP8, DTYPE_FP32 };
static const char *const dtype_names[] = { "bf16", "fp8", "fp32", NULL };

struct device {
    int ranks;
    int offset;
    double parameters;
    double efficiency;
    double any;
    bool is_shared;
    char name[8];
    enum dtype dtype;
    unsigned dtypes;
    double memory_bytes;
    double latency_s;
};

#define F(member) #member, .offset = offsetof(struct device, member)
static const struct field fields[] = {
    { F(ranks), .kind = FIELD_INT, .min = 1, .max = 8, .doc = "Ranks of a node." },
    { F(offset), .kind = FIELD_INT, .fallback = "-3", .doc = "May be negative." },
    { F(parameters), .kind = FIELD_COUNT, .fallback = "7e9", .doc = "Weights." },
    { F(efficiency), .kind = FIELD_NUMBER, .min = 0, .max = 1, .fallback = "0.5",
      .doc = "Of peak." },
    { F(any), .kind = FIELD_NUMBER, .fallback = "1", .doc = "Without bounds." },
    { F(is_shared), .kind = FIELD_BOOL, .fallback = "no", .doc = "Whether others use it." },
    { F(name), .kind = FIELD_TEXT, .size = 8, .fallback = "", .doc = "For people." },
    { F(dtype), .kind = FIELD_NAME, .names = dtype_names, .fallback = "fp8", .doc = "One." },
    { F(dtypes), .kind = FIELD_SET, .names = dtype_names, .fallback = "bf16,fp32", .doc = "Some." },
    { F(memory_bytes), .kind = FIELD_QUANTITY, .quantity = QUANTITY_BYTES, .min = 1,
      .max = HUGE_VAL, .doc = "Capacity." },
    { F(latency_s), .kind = FIELD_QUANTITY, .quantity = QUANTITY_SECONDS, .min = 0, .max = 1,
      .fallback = "2.1 us", .doc = "Of an empty message." },
    { "levels", .kind = FIELD_OTHER, .fallback = "", .doc = "Read by the caller." },
};
enum { NUM_FIELDS = LENGTH(fields) };

static bool read_text(const char *text, struct device *device, struct err *err)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    ck_assert_msg(json != NULL, "%s", text);
    bool ok = fields_read(fields, NUM_FIELDS, json, device, err);
    json_decref(json);
    return ok;
}

static struct device read_device(const char *text)
{
    struct device device = { 0 };
    struct err err = { 0 };
    ck_assert_msg(read_text(text, &device, &err), "%s: %s", err.where, err.msg);
    return device;
}

START_TEST(every_kind_of_value_is_read)
{
    struct device device = read_device(
        "{\"ranks\": 8, \"offset\": -2, \"parameters\": 70000000000, \"efficiency\": 0.25,"
        " \"any\": -1e300, \"is_shared\": true, \"name\": \"H200\", \"dtype\": \"fp32\","
        " \"dtypes\": [\"fp8\", \"bf16\"], \"memory_bytes\": \"80 GiB\", \"latency_s\": \"3 ms\","
        " \"levels\": [1]}");
    ck_assert_int_eq(device.ranks, 8);
    ck_assert_int_eq(device.offset, -2);
    ck_assert_double_eq(device.parameters, 7e10);
    ck_assert_double_eq(device.efficiency, 0.25);
    ck_assert_double_eq(device.any, -1e300);
    ck_assert(device.is_shared);
    ck_assert_str_eq(device.name, "H200");
    ck_assert_int_eq(device.dtype, DTYPE_FP32);
    ck_assert_uint_eq(device.dtypes, 1u << DTYPE_FP8 | 1u << DTYPE_BF16);
    ck_assert_double_eq(device.memory_bytes, 80 * 0x1p30);
    ck_assert_double_eq(device.latency_s, 3e-3);
}
END_TEST

static const char minimal[] = "{\"ranks\": 1, \"memory_bytes\": \"1 GB\"}";

START_TEST(an_absent_key_gets_its_fallback)
{
    struct device device = read_device(minimal);
    ck_assert_int_eq(device.offset, -3);
    ck_assert_double_eq(device.parameters, 7e9);
    ck_assert_double_eq(device.efficiency, 0.5);
    ck_assert(!device.is_shared);
    ck_assert_str_eq(device.name, "");
    ck_assert_int_eq(device.dtype, DTYPE_FP8);
    ck_assert_uint_eq(device.dtypes, 1u << DTYPE_BF16 | 1u << DTYPE_FP32);
    ck_assert_double_eq(device.latency_s, 2.1e-6);
}
END_TEST

/* Faulty values; each is put into an otherwise correct object. */
static const struct {
    const char *key;
    const char *value;
    const char *msg;
} faults[] = {
    { "ranks", "0", "expected 1 to 8; found 0" },
    { "ranks", "9", "expected 1 to 8; found 9" },
    { "ranks", "4294967297", "expected 1 to 8; found 4294967297" },
    { "ranks", "1.0", "expected an integer; found 1.0" },
    { "ranks", "\"8\"", "expected an integer; found \"8\"" },
    { "ranks", "null", "expected a value; found null" },
    { "ranks", "[1]", "expected an integer; found an array" },
    { "ranks", "{}", "expected an integer; found an object" },
    { "ranks", "true", "expected an integer; found true" },
    { "offset", "2147483648", "expected an integer of at most 32 bits; found 2147483648" },
    { "offset", "-2147483649", "expected an integer of at most 32 bits; found -2147483649" },
    { "parameters", "-1", "expected a whole number from 0 to 1e18; found -1" },
    { "parameters", "0.5", "expected a whole number from 0 to 1e18; found 0.5" },
    { "parameters", "1000000000000001000",
      "expected a whole number from 0 to 1e18; found 1000000000000001000" },
    { "parameters", "2e18", "expected a whole number from 0 to 1e18; found 2e18" },
    { "parameters", "\"7B\"", "expected a whole number from 0 to 1e18; found \"7B\"" },
    { "efficiency", "1.1", "expected 0 to 1; found 1.1" },
    { "efficiency", "\"high\"", "expected a number; found \"high\"" },
    { "is_shared", "1", "expected true or false; found 1" },
    { "is_shared", "\"yes\"", "expected true or false; found \"yes\"" },
    { "name", "\"12345678\"", "expected at most 7 bytes; found 8" },
    { "name", "5", "expected text; found 5" },
    { "dtype", "\"bf15\"", "expected one of bf16, fp8, fp32; found \"bf15\"" },
    { "dtype", "0", "expected one of bf16, fp8, fp32; found 0" },
    { "dtypes", "\"fp8\"", "expected a list of names out of bf16, fp8, fp32; found \"fp8\"" },
    { "dtypes", "[\"int8\"]", "expected a list of names out of bf16, fp8, fp32; found \"int8\"" },
    { "memory_bytes", "80",
      "expected a quantity with its unit, like \"80 GiB\"; found the bare number 80" },
    { "memory_bytes", "1.5e10",
      "expected a quantity with its unit, like \"80 GiB\"; found the bare number 15000000000.0" },
    { "memory_bytes", "\"80\"",
      "expected a quantity with its unit, like \"80 GiB\"; found the bare number 80" },
    { "memory_bytes", "false", "expected a quantity with its unit, like \"80 GiB\"; found false" },
    { "memory_bytes", "\"0 B\"", "expected at least 1 B; found \"0 B\"" },
    { "memory_bytes", "\"nan B\"",
      "expected a quantity with its unit, like \"80 GiB\"; found \"nan B\"" },
    { "latency_s", "\"2 s\"", "expected 0 s to 1 s; found \"2 s\"" },
    { "latency_s", "\"2 GB\"",
      "expected one of the units ns, us, ms, s, min, h, d, w; found \"GB\"" },
    { "levels", "null", "expected a value; found null" },
    { "latency", "\"2 us\"", "is not a known key; did you mean \"latency_s\"?" },
};
enum { NUM_FAULTS = LENGTH(faults) };

START_TEST(an_error_names_the_key_the_expected_and_the_found_value)
{
    struct device device;
    struct err err = { 0 };
    json_t *json = json_loads(minimal, 0, NULL);
    json_t *value = json_loads(faults[_i].value, JSON_DECODE_ANY, NULL);
    json_object_set_new(json, faults[_i].key, value);
    ck_assert(!fields_read(fields, NUM_FIELDS, json, &device, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, faults[_i].key);
    ck_assert_str_eq(err.msg, faults[_i].msg);
    json_decref(json);
}
END_TEST

static void assert_refused(const char *text, const char *where, const char *msg)
{
    struct device device;
    struct err err = { 0 };
    ck_assert(!read_text(text, &device, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, where);
    ck_assert_str_eq(err.msg, msg);
}

START_TEST(the_error_of_a_missing_key_names_what_is_expected)
{
    assert_refused("{}", "ranks", "is missing; expected an integer");
    assert_refused("{\"ranks\": 1}", "memory_bytes",
                   "is missing; expected a quantity with its unit, like \"80 GiB\"");
}
END_TEST

START_TEST(a_misspelt_key_is_reported_before_the_one_that_is_missing)
{
    assert_refused("{\"rank\": 1, \"memory_bytes\": \"1 GB\"}", "rank",
                   "is not a known key; did you mean \"ranks\"?");
}
END_TEST

START_TEST(anything_but_an_object_is_refused)
{
    assert_refused("[]", "", "expected an object; found an array");
    assert_refused("5", "", "expected an object; found 5");
}
END_TEST

START_TEST(a_null_pointer_is_refused)
{
    struct device device;
    struct err err = { 0 };
    ck_assert(!fields_read(fields, NUM_FIELDS, NULL, &device, &err));
    ck_assert_str_eq(err.msg, "expected an object; found nothing");
}
END_TEST

START_TEST(counts_are_accepted_up_to_1e18_in_either_form)
{
    struct device device =
        read_device("{\"ranks\": 1, \"memory_bytes\": \"1 GB\", \"parameters\": 1e18}");
    ck_assert_double_eq(device.parameters, 1e18);
    device = read_device(
        "{\"ranks\": 1, \"memory_bytes\": \"1 GB\", \"parameters\": 1000000000000000000}");
    ck_assert_double_eq(device.parameters, 1e18);
}
END_TEST

static const struct field *field_of(const char *name)
{
    return fields_find(fields, NUM_FIELDS, name);
}

static struct device parse(const char *name, const char *text)
{
    struct device device = { 0 };
    struct err err = { 0 };
    ck_assert_msg(field_parse(field_of(name), text, &device, &err), "%s: %s", err.where, err.msg);
    return device;
}

START_TEST(a_flag_sets_its_field_from_text)
{
    ck_assert_int_eq(parse("ranks", "4").ranks, 4);
    ck_assert_double_eq(parse("parameters", "7e9").parameters, 7e9);
    ck_assert_double_eq(parse("any", "-0.125").any, -0.125);
    ck_assert_str_eq(parse("name", "a b").name, "a b");
    ck_assert_int_eq(parse("dtype", "fp32").dtype, DTYPE_FP32);
    ck_assert_uint_eq(parse("dtypes", "fp32,fp8").dtypes, 6);
    ck_assert_uint_eq(parse("dtypes", "").dtypes, 0);
    ck_assert_double_eq(parse("memory_bytes", "1GiB").memory_bytes, 0x1p30);
}
END_TEST

START_TEST(a_switch_accepts_four_words_for_yes)
{
    static const char *const yes[] = { "yes", "true", "on", "1" };
    static const char *const no[] = { "no", "false", "off", "0" };
    ck_assert(parse("is_shared", yes[_i]).is_shared);
    ck_assert(!parse("is_shared", no[_i]).is_shared);
}
END_TEST

static const struct {
    const char *key;
    const char *text;
    const char *msg;
} slips[] = {
    { "ranks", "four", "expected an integer; found \"four\"" },
    { "ranks", "", "expected an integer; found \"\"" },
    { "ranks", "4x", "expected an integer; found \"4x\"" },
    { "ranks", "9", "expected 1 to 8; found 9" },
    { "ranks", "99999999999999999999", "expected an integer; found \"99999999999999999999\"" },
    { "any", "nan", "expected a number; found \"nan\"" },
    { "any", "inf", "expected a number; found \"inf\"" },
    { "any", "1e999", "expected a number; found \"1e999\"" },
    { "is_shared", "maybe", "expected true or false; found \"maybe\"" },
    { "dtypes", "fp8,,bf16", "expected a list of names out of bf16, fp8, fp32; found \"\"" },
    { "memory_bytes", "80",
      "expected a quantity with its unit, like \"80 GiB\"; found the bare number 80" },
    { "name", "\xff", "expected UTF-8 text; found other bytes" },
    { "name", "a\nb", "expected one line of plain text; found \"a?b\"" },
    { "name", "\x1b[2J", "expected one line of plain text; found \"?[2J\"" },
    { "name", "\u202etxt", "expected one line of plain text; found \"?txt\"" },
    { "levels", "[]", "can be set in a file only" },
};
enum { NUM_SLIPS = LENGTH(slips) };

START_TEST(the_error_of_a_wrong_flag_names_its_field)
{
    struct device device;
    struct err err = { 0 };
    ck_assert(!field_parse(field_of(slips[_i].key), slips[_i].text, &device, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, slips[_i].key);
    ck_assert_str_eq(err.msg, slips[_i].msg);
}
END_TEST

START_TEST(written_values_read_back_with_the_same_bits)
{
    struct device device = {
        .ranks = 3,
        .offset = -2147483647 - 1,
        .parameters = 123456789012345680.0,
        .efficiency = 1.0 / 3,
        .any = -0.0,
        .is_shared = true,
        .name = "é \"",
        .dtype = DTYPE_FP32,
        .dtypes = 5,
        .memory_bytes = 1e10 / 3,
        .latency_s = 1e-6 / 7,
    };
    struct device again = { 0 };
    struct err err = { 0 };
    json_t *json = fields_write(fields, NUM_FIELDS, &device);
    char *text = json_text(json, 0);
    ck_assert(read_text(text, &again, &err));
    ck_assert_int_eq(again.offset, device.offset);
    ck_assert_double_eq(again.parameters, device.parameters);
    ck_assert_double_eq(again.efficiency, device.efficiency);
    ck_assert(signbit(again.any));
    ck_assert_str_eq(again.name, device.name);
    ck_assert_int_eq(again.dtype, device.dtype);
    ck_assert_uint_eq(again.dtypes, device.dtypes);
    ck_assert_double_eq(again.memory_bytes, device.memory_bytes);
    ck_assert_double_eq(again.latency_s, device.latency_s);
    free(text);
    json_decref(json);
}
END_TEST

START_TEST(values_are_written_with_units_and_few_digits)
{
    struct device device = read_device(minimal);
    json_t *json = fields_write(fields, NUM_FIELDS, &device);
    char *text = json_text(json, 0);
    ck_assert_str_eq(text, "{\"ranks\": 1, \"offset\": -3, \"parameters\": 7000000000, "
                           "\"efficiency\": 0.5, \"any\": 1, \"is_shared\": false, \"name\": \"\", "
                           "\"dtype\": \"fp8\", \"dtypes\": [\"bf16\", \"fp32\"], "
                           "\"memory_bytes\": \"1 GB\", \"latency_s\": \"2.1 us\"}");
    free(text);
    json_decref(json);
}
END_TEST

START_TEST(a_field_is_found_by_its_name)
{
    ck_assert_ptr_eq(field_of(fields[_i].name), &fields[_i]);
}
END_TEST

START_TEST(an_unknown_name_finds_no_field)
{
    ck_assert_ptr_null(field_of("price"));
}
END_TEST

START_TEST(the_reference_has_one_row_per_field)
{
    static const char expected[] =
        "| `ranks` | integer | 1 to 8 | required | Ranks of a node. |\n"
        "| `offset` | integer |  | `-3` | May be negative. |\n"
        "| `parameters` | whole number |  | `7e9` | Weights. |\n"
        "| `efficiency` | number | 0 to 1 | `0.5` | Of peak. |\n"
        "| `any` | number |  | `1` | Without bounds. |\n"
        "| `is_shared` | true or false |  | `no` | Whether others use it. |\n"
        "| `name` | text |  | empty | For people. |\n"
        "| `dtype` | name | bf16, fp8, fp32 | `fp8` | One. |\n"
        "| `dtypes` | list of names | bf16, fp8, fp32 | `bf16,fp32` | Some. |\n"
        "| `memory_bytes` | quantity (B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB) | "
        "at least 1 B | required | Capacity. |\n"
        "| `latency_s` | quantity (ns, us, ms, s, min, h, d, w) | 0 s to 1 s | `2.1 us` | "
        "Of an empty message. |\n"
        "| `levels` | structure |  | optional | Read by the caller. |\n";
    char *page;
    size_t length;
    FILE *to = open_memstream(&page, &length);
    fields_document(fields, NUM_FIELDS, to);
    fclose(to);
    ck_assert_str_eq(page, expected);
    free(page);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("field");
    tcase_add_test(tc, every_kind_of_value_is_read);
    tcase_add_test(tc, an_absent_key_gets_its_fallback);
    tcase_add_loop_test(tc, an_error_names_the_key_the_expected_and_the_found_value, 0, NUM_FAULTS);
    tcase_add_test(tc, the_error_of_a_missing_key_names_what_is_expected);
    tcase_add_test(tc, a_misspelt_key_is_reported_before_the_one_that_is_missing);
    tcase_add_test(tc, anything_but_an_object_is_refused);
    tcase_add_test(tc, a_null_pointer_is_refused);
    tcase_add_test(tc, counts_are_accepted_up_to_1e18_in_either_form);
    tcase_add_test(tc, a_flag_sets_its_field_from_text);
    tcase_add_loop_test(tc, a_switch_accepts_four_words_for_yes, 0, 4);
    tcase_add_loop_test(tc, the_error_of_a_wrong_flag_names_its_field, 0, NUM_SLIPS);
    tcase_add_test(tc, written_values_read_back_with_the_same_bits);
    tcase_add_test(tc, values_are_written_with_units_and_few_digits);
    tcase_add_loop_test(tc, a_field_is_found_by_its_name, 0, NUM_FIELDS);
    tcase_add_test(tc, an_unknown_name_finds_no_field);
    tcase_add_test(tc, the_reference_has_one_row_per_field);
    Suite *s = suite_create("base/field");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
