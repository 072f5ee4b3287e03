/* Models for tables about data parallelism. They have only a number of parameters and FLOPs per
 * sample. */
#include "models/workload.h"

#include "base/length.h"

#include <stddef.h>
#include <string.h>

const struct workload workloads[] = {
    /* Two FLOPs for each of 4.09e9 multiply-adds. */
    { .name = "resnet-50",
      .summary = "ResNet-50 on ImageNet",
      .source = "He et al. 2016 (arXiv:1512.03385), table 1; parameters and multiply-adds of "
                "torchvision's resnet50, which strides in its 3 x 3 layers",
      .parameters = 25557032,
      .forward_flops = 2 * 4.09e9,
      .sample = "an image of 224 x 224" },
    /* Embeddings (30522 + 512 + 2) 1024 + 2 x 1024, 24 blocks of 12 h^2 + 13 h, a pooler of
     * h^2 + h; FLOPs 24 (24 s h^2 + 4 s^2 h) with s = 128 and h = 1024; attention is not masked. */
    { .name = "bert-large",
      .summary = "BERT-Large, uncased, with its pooler",
      .source = "Devlin et al. 2019 (arXiv:1810.04805), section 3: 24 blocks, width 1024, 340M "
                "printed; counted for a vocabulary of 30522",
      .parameters = 335141888,
      .forward_flops = 24 * (24.0 * 128 * 1024 * 1024 + 4.0 * 128 * 128 * 1024),
      .sample = "a sequence of 128 tokens" },
};
const int num_workloads = LENGTH(workloads);

const struct workload *workload_find(const char *name)
{
    for (int i = 0; i < num_workloads; i++)
        if (strcmp(workloads[i].name, name) == 0)
            return &workloads[i];
    return NULL;
}
