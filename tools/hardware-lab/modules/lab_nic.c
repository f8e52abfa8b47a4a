// SPDX-License-Identifier: GPL-2.0
/*
 * A network card's driver whose virtual functions are set up through the card's interface, in legacy mode (docs/spec/driver.md, D-62). It sends and
 * receives nothing, since the card is one of QEMU's NVMe controllers, with the id that it has by its property "use-intel-id"; it keeps the settings, as
 * the firmware of a real card does. A virtual function can't have a multicast address, and VLANs are those of the standard.
 */
#include <linux/etherdevice.h>
#include <linux/if_link.h>
#include <linux/if_vlan.h>
#include <linux/module.h>
#include <linux/pci.h>

#define MOST_FUNCTIONS 8

struct nic {
	struct ifla_vf_info functions[MOST_FUNCTIONS];
};

static struct ifla_vf_info *function(struct net_device *netdev, int vf)
{
	struct nic *nic = netdev_priv(netdev);

	return vf >= 0 && vf < MOST_FUNCTIONS ? &nic->functions[vf] : NULL;
}

static int get_vf_config(struct net_device *netdev, int vf, struct ifla_vf_info *info)
{
	if (!function(netdev, vf))
		return -EINVAL;
	*info = *function(netdev, vf);
	info->vf = vf;
	return 0;
}

static int set_vf_mac(struct net_device *netdev, int vf, u8 *mac)
{
	if (!function(netdev, vf) || is_multicast_ether_addr(mac))
		return -EINVAL;
	ether_addr_copy(function(netdev, vf)->mac, mac);
	return 0;
}

static int set_vf_vlan(struct net_device *netdev, int vf, u16 vlan, u8 qos, __be16 protocol)
{
	if (!function(netdev, vf) || vlan >= VLAN_N_VID || qos > 7 || protocol != htons(ETH_P_8021Q))
		return -EINVAL;
	function(netdev, vf)->vlan = vlan;
	function(netdev, vf)->qos = qos;
	return 0;
}

static int set_vf_rate(struct net_device *netdev, int vf, int least, int most)
{
	if (!function(netdev, vf) || (most && least > most))
		return -EINVAL;
	function(netdev, vf)->min_tx_rate = least;
	function(netdev, vf)->max_tx_rate = most;
	return 0;
}

static int set_vf_spoofchk(struct net_device *netdev, int vf, bool checked)
{
	if (!function(netdev, vf))
		return -EINVAL;
	function(netdev, vf)->spoofchk = checked;
	return 0;
}

static int set_vf_trust(struct net_device *netdev, int vf, bool trusted)
{
	if (!function(netdev, vf))
		return -EINVAL;
	function(netdev, vf)->trusted = trusted;
	return 0;
}

static int set_vf_link_state(struct net_device *netdev, int vf, int state)
{
	if (!function(netdev, vf))
		return -EINVAL;
	function(netdev, vf)->linkstate = state;
	return 0;
}

static netdev_tx_t start_xmit(struct sk_buff *skb, struct net_device *netdev)
{
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops operations = {
	.ndo_start_xmit = start_xmit,
	.ndo_get_vf_config = get_vf_config,
	.ndo_set_vf_mac = set_vf_mac,
	.ndo_set_vf_vlan = set_vf_vlan,
	.ndo_set_vf_rate = set_vf_rate,
	.ndo_set_vf_spoofchk = set_vf_spoofchk,
	.ndo_set_vf_trust = set_vf_trust,
	.ndo_set_vf_link_state = set_vf_link_state,
};

static int nic_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct net_device *netdev;
	struct nic *nic;
	int error, vf;

	if (pdev->is_virtfn)
		return -ENODEV;
	netdev = alloc_etherdev(sizeof(struct nic));
	if (!netdev)
		return -ENOMEM;
	nic = netdev_priv(netdev);
	for (vf = 0; vf < MOST_FUNCTIONS; vf++)
		nic->functions[vf].spoofchk = 1;
	SET_NETDEV_DEV(netdev, &pdev->dev);
	netdev->netdev_ops = &operations;
	eth_hw_addr_random(netdev);
	error = pci_enable_device_mem(pdev);	/* without, functions can't be made */
	if (error)
		goto free;
	error = register_netdev(netdev);
	if (error)
		goto disable;
	pci_set_drvdata(pdev, netdev);
	return 0;
disable:
	pci_disable_device(pdev);
free:
	free_netdev(netdev);
	return error;
}

static void nic_remove(struct pci_dev *pdev)
{
	struct net_device *netdev = pci_get_drvdata(pdev);

	pci_disable_sriov(pdev);
	unregister_netdev(netdev);
	pci_disable_device(pdev);
	free_netdev(netdev);
}

static const struct pci_device_id ids[] = { { PCI_DEVICE(0x8086, 0x5845) }, { } };

static struct pci_driver nic_driver = {
	.name = "lab_nic",
	.id_table = ids,
	.probe = nic_probe,
	.remove = nic_remove,
	.sriov_configure = pci_sriov_configure_simple,
};
module_pci_driver(nic_driver);

MODULE_DESCRIPTION("Settings of network virtual functions, for tests");
MODULE_LICENSE("GPL");
