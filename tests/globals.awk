# usage: objdump -t OBJECT... | awk -f tests/globals.awk
# Prints each symbol that can be written to; a table of pointers that is const is in .data.rel.ro.
BEGIN {
    # What a process has one of: the hook that main installs for the end of memory.
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
