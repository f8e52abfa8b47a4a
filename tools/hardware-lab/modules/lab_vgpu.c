// SPDX-License-Identifier: GPL-2.0
/*
 * A card's driver that gives vGPUs by its virtual functions, without mediated devices (docs/spec/driver.md, D-61): as NVIDIA's does, it is called
 * "nvidia", is the VFIO driver of the functions itself, and has a folder "nvidia" in each with the profile that it has and those that it could get.
 * The functions are those of QEMU's NVMe controllers, which are as good as any for that.
 *
 * Two profiles: 557 for the whole card, 558 for half of it. One card has one profile at a time, and a function with a profile can't be given another one.
 */
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/vfio_pci_core.h>

#define WHOLE 557
#define HALF 558

struct vgpu {
	struct vfio_pci_core_device core;	/* the first member: driver data of the function */
	unsigned int type;
	struct list_head list;
};

static DEFINE_MUTEX(lock);
static LIST_HEAD(functions);

static struct vgpu *vgpu_of(struct device *dev)
{
	return container_of((struct vfio_pci_core_device *)dev_get_drvdata(dev), struct vgpu, core);
}

/* Whether the function's card has room for one more of a type. */
static bool has_room(struct vgpu *wanted, unsigned int type)
{
	unsigned int used = 0;
	struct vgpu *other;

	list_for_each_entry(other, &functions, list) {
		if (!other->type || pci_physfn(other->core.pdev) != pci_physfn(wanted->core.pdev))
			continue;
		if (other->type != type)
			return false;
		used++;
	}
	return used < (type == WHOLE ? 1 : 2);
}

static ssize_t creatable_vgpu_types_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	struct vgpu *vgpu = vgpu_of(dev);
	int length = sysfs_emit(text, "ID    : vGPU Name\n");

	mutex_lock(&lock);
	if (!vgpu->type && has_room(vgpu, WHOLE))
		length += sysfs_emit_at(text, length, "%u   : LAB T-8Q\n", WHOLE);
	if (!vgpu->type && has_room(vgpu, HALF))
		length += sysfs_emit_at(text, length, "%u   : LAB T-4Q\n", HALF);
	mutex_unlock(&lock);
	return length;
}
static DEVICE_ATTR_RO(creatable_vgpu_types);

static ssize_t current_vgpu_type_show(struct device *dev, struct device_attribute *attribute, char *text)
{
	return sysfs_emit(text, "%u\n", vgpu_of(dev)->type);
}

static ssize_t current_vgpu_type_store(struct device *dev, struct device_attribute *attribute, const char *text, size_t length)
{
	struct vgpu *vgpu = vgpu_of(dev);
	unsigned int type;
	int error = kstrtouint(text, 10, &type);

	if (error)
		return error;
	if (type && type != WHOLE && type != HALF)
		return -EINVAL;
	mutex_lock(&lock);
	if (type && (vgpu->type || !has_room(vgpu, type)))
		error = -EBUSY;
	else
		vgpu->type = type;
	mutex_unlock(&lock);
	return error ? error : length;
}
static DEVICE_ATTR_RW(current_vgpu_type);

static struct attribute *attributes[] = { &dev_attr_creatable_vgpu_types.attr, &dev_attr_current_vgpu_type.attr, NULL };
static const struct attribute_group group = { .name = "nvidia", .attrs = attributes };

static int open_device(struct vfio_device *device)
{
	struct vgpu *vgpu = container_of(device, struct vgpu, core.vdev);
	int error = vgpu->type ? vfio_pci_core_enable(&vgpu->core) : -ENODEV;

	if (!error)
		vfio_pci_core_finish_enable(&vgpu->core);
	return error;
}

static const struct vfio_device_ops operations = {
	.name = "lab-vgpu",
	.init = vfio_pci_core_init_dev,
	.release = vfio_pci_core_release_dev,
	.open_device = open_device,
	.close_device = vfio_pci_core_close_device,
	.ioctl = vfio_pci_core_ioctl,
	.device_feature = vfio_pci_core_ioctl_feature,
	.read = vfio_pci_core_read,
	.write = vfio_pci_core_write,
	.mmap = vfio_pci_core_mmap,
	.request = vfio_pci_core_request,
	.match = vfio_pci_core_match,
};

static int vgpu_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct vgpu *vgpu;
	int error;

	if (!pdev->is_virtfn)
		return -ENODEV;
	vgpu = vfio_alloc_device(vgpu, core.vdev, &pdev->dev, &operations);
	if (IS_ERR(vgpu))
		return PTR_ERR(vgpu);
	dev_set_drvdata(&pdev->dev, &vgpu->core);
	error = vfio_pci_core_register_device(&vgpu->core);
	if (error)
		goto put;
	mutex_lock(&lock);
	list_add(&vgpu->list, &functions);
	mutex_unlock(&lock);
	error = sysfs_create_group(&pdev->dev.kobj, &group);
	if (!error)
		return 0;
	mutex_lock(&lock);
	list_del(&vgpu->list);
	mutex_unlock(&lock);
	vfio_pci_core_unregister_device(&vgpu->core);
put:
	vfio_put_device(&vgpu->core.vdev);
	return error;
}

static void vgpu_remove(struct pci_dev *pdev)
{
	struct vgpu *vgpu = vgpu_of(&pdev->dev);

	sysfs_remove_group(&pdev->dev.kobj, &group);
	mutex_lock(&lock);
	list_del(&vgpu->list);
	mutex_unlock(&lock);
	vfio_pci_core_unregister_device(&vgpu->core);
	vfio_put_device(&vgpu->core.vdev);
}

static const struct pci_device_id ids[] = { { PCI_DEVICE(0x1b36, 0x0010) }, { } };

static struct pci_driver vgpu_driver = {
	.name = "nvidia",
	.id_table = ids,
	.probe = vgpu_probe,
	.remove = vgpu_remove,
	.driver_managed_dma = true,
};
module_pci_driver(vgpu_driver);

MODULE_DESCRIPTION("vGPU profiles on virtual functions, for tests");
MODULE_LICENSE("GPL");
