(()=>{const seen=document.currentScript.dataset.revision;let waits,over=false;window.svcReload?.();window.svcReload=()=>{over=true;waits?.abort()};
const wait=async()=>{if(over||waits||document.hidden)return;waits=new AbortController();let pause=500;try{const reply=await fetch("/.svc/changes?since="+seen,{cache:"no-store",signal:waits.signal});
if(reply.status===200){over=true;location.reload();return}if(reply.status===204)pause=0}catch{}waits=undefined;setTimeout(wait,pause)};
document.addEventListener("visibilitychange",()=>document.hidden?waits?.abort():wait());wait()})()