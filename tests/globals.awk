# usage: objdump -t OBJECT... | awk -f tests/globals.awk
# Prints each global variable that can be written. Constant tables of pointers are in the section
# .data.rel.ro and are not printed.
BEGIN {
    # Allowed: the hook for exhausted memory, which main installs; a process has only one.
    allowed["base/arena.o exhaustion_hook"] = 1
}
/file format/ { object = $1; sub(/:$/, "", object); sub(/^.*\/release\//, "", object) }
{
    name = $NF
    for (i = 2; i < NF; i++)
        if (($i ~ /^\.(data|bss|tdata|tbss)(\.|$)/ && $i !~ /^\.data\.rel\.ro/) || $i == "*COM*")
            if (name !~ /^[.$]/ && !((object " " name) in allowed)) {
                printf "%s: mutable %s\n", object, name
                bad = 1
            }
}
END { exit bad }
